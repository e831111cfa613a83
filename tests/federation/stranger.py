"""Somebody elsewhere without a certificate: `stranger.py idle|broken COUNT HOST:PORT...` connects in vain."""

import socket
import sys
import time

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)
"""The begin of a TLS handshake that never ends."""


def connected(address: str) -> socket.socket | None:
    """A connection, if one can be had within a second."""
    host, _, port = address.rpartition(":")
    try:
        return socket.create_connection((host, int(port)), timeout=1.0, source_address=("127.0.0.66", 0))
    except OSError:
        return None


def idle(count: int, addresses: list[str]) -> None:
    """Holds so many connections to each address open, and opens new ones for those that are closed."""
    held: dict[str, list[socket.socket]] = {address: [] for address in addresses}
    opened = 0
    while True:
        for address, sockets in held.items():
            for _ in range(count - len(sockets)):
                one = connected(address)
                if one is None:
                    break
                one.setblocking(False)
                sockets.append(one)
            held[address] = [one for one in sockets if still_open(one)]
        opened += 1
        if opened == 3:
            print("holding", flush=True)
        time.sleep(0.1)


def still_open(one: socket.socket) -> bool:
    """Whether the other side has not closed it."""
    try:
        if one.recv(1) == b"":
            one.close()
            return False
    except BlockingIOError:
        return True
    except OSError:
        one.close()
        return False
    return True


def broken(rate: int, addresses: list[str]) -> None:
    """So many handshakes a second to each address that begin and break off."""
    began, count = time.monotonic(), 0
    while True:
        for address in addresses:
            one = connected(address)
            if one is not None:
                try:
                    one.sendall(HELLO)
                    one.close()
                except OSError:
                    pass
        count += 1
        if count == rate:
            print("breaking", flush=True)
        time.sleep(max(0.0, began + count / rate - time.monotonic()))


if __name__ == "__main__":
    {"idle": idle, "broken": broken}[sys.argv[1]](int(sys.argv[2]), sys.argv[3:])
