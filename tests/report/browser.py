"""A real Chromium, spoken to over a pipe in its own protocol."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


class Browser:
    """One page in a headless Chromium."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            pytest.skip("there is no Chromium here")
        self._read, theirs = os.pipe()
        mine, self._write = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        command += [f"--user-data-dir={profile}", "--disable-background-networking", "about:blank"]

        def places() -> None:
            first, second = os.dup(mine), os.dup(theirs)
            os.dup2(first, 3)
            os.dup2(second, 4)

        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(3, 4, mine, theirs), preexec_fn=places, **quiet)
        os.close(theirs)
        os.close(mine)
        self._number, self._rest = 0, b""
        page = next(t for t in self._ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self._ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]

    def open(self, address: str) -> None:
        self._ask("Page.navigate", session=True, url=address)

    def look(self, width: int = 1400, dark: bool = False) -> None:
        """From now on a screen of that width, in light or dark."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self._ask("Emulation.setDeviceMetricsOverride", session=True, **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", session=True, features=scheme)

    def picture(self, path: Path, whole: bool = True) -> None:
        """Writes what is seen, or the whole page, as a PNG."""
        found = self._ask("Page.captureScreenshot", session=True, format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def value(self, expression: str) -> Any:
        """What an expression, or the promise it is, is worth in the page."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        return self._ask("Runtime.evaluate", session=True, **asked)["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> Any:
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.value(expression)
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{expression} never was true; the page says: {self.value('document.body.innerText')}")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _ask(self, method: str, session: bool = False, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._read, 1 << 16)
                assert more, "Chromium has ended"
                self._rest += more
            one, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
