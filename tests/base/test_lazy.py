"""Public modules load each name when it is first used."""

import subprocess
import sys

import pytest

import consilience as cs


def test_names_are_those_of_the_stub_and_an_unknown_one_is_an_error():
    assert dir(cs) == cs.__all__
    assert {"Consensus", "collaborate", "extend"} <= set(cs.__all__)
    assert cs.extend.TRUST is cs.extend.TRUST
    with pytest.raises(AttributeError, match=r"module 'consilience' has no attribute 'Consesus'"):
        _ = cs.Consesus


def test_the_package_alone_imports_no_library():
    code = "import sys, consilience; print(sorted({'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
