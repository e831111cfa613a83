"""A site's keys: Ed25519 to sign what it publishes, and for trials a CA that issues TLS certificates."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from consilience.errors import ConsilienceError


def new_signing_key(path: Path) -> str:
    """Writes a new Ed25519 private key, readable by its owner alone; returns the public key in hexadecimal."""
    key = Ed25519PrivateKey.generate()
    _write_private(path, key)
    return public_key(key)


def read_signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key in `path`."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise ConsilienceError(
            f"no signing key can be read from {path} ({error}). Make one: consilience keys."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConsilienceError(f"{path} holds no Ed25519 key. Make one: consilience keys.")
    return key


def public_key(key: Ed25519PrivateKey) -> str:
    """The public key that belongs to `key`, in hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


def is_signed(public: str, signature: bytes, message: bytes) -> bool:
    """Whether the holder of the key `public` (hexadecimal) signed `message`."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def is_public_key(text: str) -> bool:
    """Whether `text` is an Ed25519 public key in hexadecimal."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    except ValueError:
        return False
    return True


def new_authority(folder: Path, name: str = "consilience trial CA", days: int = 365) -> None:
    """A certificate authority for trials: ca.crt, which everyone holds, and ca.key, which issues certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _certificate(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write_private(folder / "ca.key", key)
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def issue_certificate(authority: Path, folder: Path, name: str, host: str, days: float = 90) -> None:
    """Writes tls.key and tls.crt for the common name `name` at `host`, signed by the authority; and its ca.crt."""
    issuer = x509.load_pem_x509_certificate((authority / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConsilienceError(f"{authority / 'ca.key'} is not a key that `consilience keys` made.")
    key = ec.generate_private_key(ec.SECP256R1())
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _certificate(_name(name), issuer.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_place(host)]), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .sign(signer, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write_private(folder / "tls.key", key)
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "ca.crt").write_bytes((authority / "ca.crt").read_bytes())


@dataclass(frozen=True)
class Certificate:
    """What matters of a TLS certificate."""

    name: str
    """Its common name, to which access is bound."""
    begins: datetime
    ends: datetime

    def problem(self, now: datetime) -> str:
        """Why it is not valid now; empty if it is."""
        if now < self.begins:
            return f"is valid only from {self.begins:%Y-%m-%d %H:%M} UTC"
        if now > self.ends:
            return f"expired on {self.ends:%Y-%m-%d %H:%M} UTC"
        return ""


def read_certificate(path: Path) -> Certificate:
    """The certificate in a PEM file."""
    try:
        return parse_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
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


def _place(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _write_private(path: Path, key: Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> None:
    """Writes a private key that only its owner can read, and never over another."""
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConsilienceError(f"{path} exists, and a private key is never overwritten. Move it away first.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
