"""A member that writes what it likes, and damages the files of others: `hostile_folder.py SITE FOLDER MODE...`.

Its modes are those of `rogue.py`, for its own frames. Meanwhile files of other members are cut, swapped, put back,
removed, or replaced by pipes, links and large files.
"""

import os
import random
import secrets
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from consilience.base.files import write_atomically
from consilience.federation.peers.frame import NONCE
from consilience.federation.peers.sealing import Kind
from consilience.federation.peers.untrusted_input import InvalidInput
from tests.federation.rogue import Rogue

PAUSE = 0.3
"""Seconds between two attacks."""


class FolderRogue(Rogue):
    """Its files, and what it does to those of others."""

    def __init__(self, site: Path, folder: Path, modes: list[str]) -> None:
        super().__init__(site, modes)
        self.home = folder / self.federation.id / str(self.federation.epoch)
        self.draw, self.old = random.Random(str(modes)), {}
        self.others = [name for name in self.federation.names if name != self.name]
        self.kept: list[tuple[Path, bytes]] = []

    def open_carriers(self, network: Any) -> list[Any]:
        return []

    def fetched(self, agent: str, number: int) -> bytes:
        """Another agent's frame."""
        try:
            path = self.home / agent / "agent" / f"round-{number}"
            data = path.read_bytes() if path.is_file() else b""  # it may have put a pipe or a device there
            return bytes(self.sealer.open(data, *Kind).data)
        except (OSError, InvalidInput):
            return b"nothing fetched"

    def write(self, name: str, data: bytes) -> None:
        folder = self.home / self.name / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, data)

    def publish(self) -> None:
        """Writes a status, and its frames of the rounds in which the others are."""
        files = [path.name for path in self.home.glob("*/agent/round-*") if self.name not in path.parts]
        numbers = sorted({int(name[6:]) for name in files if name[6:].isdecimal()})[-2:]
        number = 2**31 if "ahead" in self.modes else max(numbers, default=0)
        status = self.format.pack_status(time.time(), bytes(NONCE))
        self.write("status", self.sealer.seal(Kind.STATUS, status, self.others, number))
        for number in numbers:
            mode = self.modes[max(0, min(number - 2, len(self.modes) - 1))]
            for data in self.replies(mode, number, self.draw.choice(self.others)):
                self.write(f"round-{number}", self.sealer.seal(Kind.FRAME, data, self.others, number))
            if mode == "garbled":
                self.write(f"round-{number}", secrets.token_bytes(5000))

    def spoil(self) -> None:
        """Does something to a file of another member."""
        files = [path for path in self.home.glob("*/agent/*") if self.name not in path.parts and path.is_file()]
        if not files:
            return
        file, other = self.draw.choice(files), self.draw.choice(files)
        kind = self.draw.randrange(8)
        self.kept = [*self.kept[-20:], (file, file.read_bytes())]
        if kind == 0:
            write_atomically(file, other.read_bytes())
        elif kind == 1:
            path, data = self.draw.choice(self.kept)
            write_atomically(path, data)
        elif kind == 2:
            write_atomically(file, file.read_bytes()[:-1])
        elif kind == 3:
            write_atomically(file, bytes(8_000_000))
        elif kind == 4:
            shutil.copy(file, file.with_name(f"round-{self.draw.randrange(99)}"))
        else:
            file.unlink()
            if kind == 5:
                os.mkfifo(file)
            elif kind == 6:
                file.symlink_to("/dev/zero")


if __name__ == "__main__":
    member = FolderRogue(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    while True:
        with suppress(OSError):
            member.publish()
        with suppress(OSError):
            member.spoil()
        time.sleep(PAUSE)
