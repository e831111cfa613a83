"""A site's keys: Ed25519 to sign, X25519 to read what is sealed for it, and for trials a CA for TLS certificates."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilience.base.errors import ConsilienceError
from consilience.base.files import LOCK, one_at_a_time


@dataclass(frozen=True)
class SiteKeys:
    """A site's private keys."""

    signing: Ed25519PrivateKey
    encryption: X25519PrivateKey


def new_signing_key(path: Path) -> str:
    """Writes a new Ed25519 private key, readable by its owner alone; returns the public key in hexadecimal."""
    key = Ed25519PrivateKey.generate()
    _write_private(path, key)
    return public_key(key)


def new_encryption_key(path: Path) -> str:
    """Writes a new X25519 private key, readable by its owner alone; returns the public key in hexadecimal."""
    key = X25519PrivateKey.generate()
    _write_private(path, key)
    return public_key(key)


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in `path`, with which a site signs."""
    key: Ed25519PrivateKey = _read_key(path, Ed25519PrivateKey, "signing")
    return key


def read_encryption_key(path: Path) -> X25519PrivateKey:
    """The private key in `path`, with which a site reads what is sealed for it."""
    key: X25519PrivateKey = _read_key(path, X25519PrivateKey, "encryption")
    return key


def _read_key(path: Path, kind: Any, purpose: str) -> Any:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except Exception as error:  # damaged files make the reader of keys fail in many ways
        raise ConsilienceError(
            f"no {purpose} key can be read from {path} ({error}). Make one: consilience site init."
        ) from error
    if not isinstance(key, kind):
        name = kind.__name__.removesuffix("PrivateKey")
        raise ConsilienceError(f"{path} holds no {name} key. Make one: consilience site init.")
    return key


def public_key(key: Ed25519PrivateKey | X25519PrivateKey) -> str:
    """The public key that belongs to `key`, in hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


@lru_cache(maxsize=1024)
def encryption_key(text: str) -> X25519PublicKey:
    """The X25519 public key in hexadecimal."""
    return X25519PublicKey.from_public_bytes(bytes.fromhex(text))


@lru_cache(maxsize=1024)
def is_encryption_key(text: str) -> bool:
    """Whether `text` is an X25519 public key in lower-case hexadecimal, and not of small order.

    What is sealed with a key of small order can be read by everyone.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        return False
    try:
        X25519PrivateKey.generate().exchange(encryption_key(text))
    except ValueError:
        return False
    return True


def is_signed(public: str, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the key `public` (hexadecimal) signed `message`."""
    try:
        _public_key(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def signature_bytes(text: object) -> bytes:
    """A signature that a file has in hexadecimal; empty if it is none."""
    try:
        return bytes.fromhex(str(text)[: 2 * 64])
    except ValueError:
        return b""


@lru_cache(maxsize=1024)
def _public_key(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))


@lru_cache(maxsize=1024)
def is_public_key(text: str) -> bool:
    """Whether `text` is an Ed25519 public key in lower-case hexadecimal, and a point of the large group.

    A point of small order would verify signatures that nobody made.
    """
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        return False
    point = _point(bytes.fromhex(text))
    return point is not None and point != _ZERO and _times(_ORDER, point) == _ZERO


_P, _ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, 2**255 - 19) % (2**255 - 19)
_ZERO = (0, 1)


def _point(packed: bytes) -> tuple[int, int] | None:
    """The point (x, y) of -x^2 + y^2 = 1 + d x^2 y^2 that RFC 8032 packs like this; None if there is none."""
    number = int.from_bytes(packed, "little")
    y, odd = number % 2**255, number >> 255
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if (x * x - square) % _P or (x == 0 and odd):
        return None
    return (x if x % 2 == odd else _P - x), y


def _times(factor: int, point: tuple[int, int]) -> tuple[int, int]:
    """The point added to itself `factor` times; in projective coordinates (x, y, z), which need no division."""
    result, base = (0, 1, 1), (*point, 1)
    while factor:
        result = _sum(result, base) if factor & 1 else result
        base, factor = _sum(base, base), factor >> 1
    inverse = pow(result[2], -1, _P)
    return result[0] * inverse % _P, result[1] * inverse % _P


def _sum(first: tuple[int, int, int], second: tuple[int, int, int]) -> tuple[int, int, int]:
    """x = (x1 y2 + y1 x2) / (1 + d x1 x2 y1 y2), y = (y1 y2 + x1 x2) / (1 - d x1 x2 y1 y2)."""
    (x1, y1, z1), (x2, y2, z2) = first, second
    z, x, y = z1 * z2 % _P, x1 * x2 % _P, y1 * y2 % _P
    square, twist = z * z % _P, _D * x * y % _P
    cross = (x1 + y1) * (x2 + y2) - x - y
    below, above = (square - twist) % _P, (square + twist) % _P
    return z * below * cross % _P, z * above * (y + x) % _P, below * above % _P


def new_authority(folder: Path, name: str = "consilience trial CA", days: int = 365) -> None:
    """Writes a certificate authority for trials: ca.crt for everyone, and ca.key, which issues certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _certificate(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_pair(folder, "ca", key, certificate)


def trial_authority(folder: Path) -> bool:
    """Makes a certificate authority for trials if it does not exist; returns whether it did."""
    with one_at_a_time(folder / LOCK):
        made = not (folder / "ca.key").is_file()
        if made:
            new_authority(folder)
        return made


def issue_certificate(authority: Path, folder: Path, name: str, host: str, days: float = 90) -> None:
    """Writes tls.key and tls.crt for the common name `name` at `host`, signed by the authority; and its ca.crt."""
    issuer = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConsilienceError(f"{authority / 'ca.key'} is not a key that `consilience site init` made.")
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _certificate(_name(name), issuer.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host_name(host)]), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(signer, hashes.SHA256())
    )
    _write_pair(folder, "tls", key, certificate)
    (folder / "ca.crt").write_bytes((authority / "ca.crt").read_bytes())


@dataclass(frozen=True)
class Certificate:
    """What matters of a TLS certificate."""

    name: str
    """Its common name."""
    begins: datetime
    ends: datetime

    def problem(self, now: datetime) -> str:
        """Why it is not valid now; empty if it is valid."""
        if now < self.begins:
            return f"is valid only from {self.begins:%Y-%m-%d %H:%M} UTC"
        if now > self.ends:
            return f"expired on {self.ends:%Y-%m-%d %H:%M} UTC"
        return ""


def read_certificate(path: Path) -> Certificate:
    """The certificate in a PEM file."""
    try:
        return parse_certificate(path.read_bytes())
    except FileNotFoundError:
        raise ConsilienceError(
            f"there is no certificate {path}. That of an authority comes from whoever made it: the relay's, or the "
            "federation's."
        ) from None
    except Exception as error:  # here, too
        raise ConsilienceError(f"no certificate can be read from {path} ({error}).") from error


def parse_certificate(pem: bytes) -> Certificate:
    """The first certificate of PEM text."""
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Certificate(
        str(names[0].value) if names else "", certificate.not_valid_before_utc, certificate.not_valid_after_utc
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    begins = min(now - timedelta(minutes=5), now + timedelta(days=days) - timedelta(minutes=5))
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _write_pair(folder: Path, stem: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _write_private(folder / f"{stem}.key", key)
    (folder / f"{stem}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_private(path: Path, key: Ed25519PrivateKey | X25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
    """Writes a private key that only its owner can read, and never overwrites one."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConsilienceError(f"{path} exists, and a private key is never overwritten. Move it away first.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
