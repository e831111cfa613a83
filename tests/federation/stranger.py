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
                connection = connected(address)
                if connection is None:
                    break
                connection.setblocking(False)
                sockets.append(connection)
            held[address] = [connection for connection in sockets if still_open(connection)]
        opened += 1
        if opened == 3:
            print("holding", flush=True)
        time.sleep(0.1)


def still_open(connection: socket.socket) -> bool:
    """Whether the other side has not closed it."""
    try:
        if connection.recv(1) == b"":
            connection.close()
            return False
    except BlockingIOError:
        return True
    except OSError:
        connection.close()
        return False
    return True


def broken(rate: int, addresses: list[str]) -> None:
    """So many handshakes a second to each address that begin and break off."""
    began, count = time.monotonic(), 0
    while True:
        for address in addresses:
            connection = connected(address)
            if connection is not None:
                try:
                    connection.sendall(HELLO)
                    connection.close()
                except OSError:
                    pass
        count += 1
        if count == rate:
            print("breaking", flush=True)
        time.sleep(max(0.0, began + count / rate - time.monotonic()))


if __name__ == "__main__":
    {"idle": idle, "broken": broken}[sys.argv[1]](int(sys.argv[2]), sys.argv[3:])
