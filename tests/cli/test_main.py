"""The program as a whole: help, version, errors in one sentence."""

import json
import subprocess
import sys


def test_the_command_line_loads_neither_zenoh_nor_cryptography():
    code = "import sys, json, consilience.cli; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert "consilience" in loaded and not loaded & {"zenoh", "cryptography", "torch", "sklearn"}
