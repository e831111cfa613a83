"""`site init` writes a site that loads, asked for at a terminal or by options alone."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("zenoh", reason="needs consilience[peers]")

from consilience import ConsilienceError
from consilience.cli.main import app
from consilience.federation.peers.untrusted_input import read_member
from consilience.federation.site import read_site


def init(*words: str | Path, typed: str = "") -> str:
    result = CliRunner().invoke(app, ["site", "init", *map(str, words)], input=typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_options_alone_make_a_site_behind_a_relay() -> None:
    Path("relay-ca.crt").write_text("its certificate")
    output = init(
        *("a", "--relay", "relay.example:443", "--relay", "other.example:443", "--ca", "relay-ca.crt"),
        *("--data", "patients.csv", "--label", "diagnosis", "--shared", "x.csv", "--model", "boosting"),
    )
    site, member = read_site(Path("a/site.toml")), read_member(Path("a/member.toml"))
    assert (site.carrier, site.relay) == ("relay", ("relay.example:443", "other.example:443"))
    assert (site.data, site.label, site.shared, site.model) == ("patients.csv", "diagnosis", "x.csv", "boosting")
    assert (member.agent, member.address) == ("a", "")
    assert Path("a/keys/ca.crt").read_text() == "its certificate"
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path("a/keys").glob("*.key"))
    assert "Send a/member.toml to whoever writes the federation file" in output


def test_the_carrier_follows_from_the_option_that_needs_one() -> None:
    init("a", "--folder", "s3://bucket/heart", "--model", "agent.py")
    site = read_site(Path("a/site.toml"))
    assert (site.carrier, site.folder, site.python, site.model) == ("folder", "s3://bucket/heart", "agent.py", "")
    init("b", "--address", "b.example:7447", "--relay", "relay.example:443")
    assert read_site(Path("b/site.toml")).carrier == "direct"
    assert read_member(Path("b/member.toml")).address == "b.example:7447"


def test_without_a_terminal_what_is_missing_is_an_option() -> None:
    with pytest.raises(ConsilienceError, match="Without a terminal that is an option: --relay HOST:PORT"):
        init("a")
    with pytest.raises(ConsilienceError, match="consilience site init AGENT"):
        init("--relay", "relay.example:443")
    with pytest.raises(ConsilienceError, match="the certificate of the CA, does not exist"):
        init("a", "--relay", "relay.example:443", "--ca", "nothing.crt")
    with pytest.raises(ConsilienceError, match="is not host:port"):
        init("a", "--relay", "relay.example")
    assert not Path("a").exists(), "nothing is written before all is known"


def test_at_a_terminal_it_asks_for_what_no_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def __init__(self, stream: object) -> None:
            self._stream = stream

        def isatty(self) -> bool:
            return True

        def __getattr__(self, name: str) -> object:
            return getattr(self._stream, name)

    import consilience.cli.site_init as module

    fake = type("Sys", (), {"stdin": property(lambda self: Terminal(sys.stdin)), "stdout": Terminal(sys.stdout)})()
    monkeypatch.setattr(module, "sys", fake)
    answers = ["a", "", "relay.example:443", "", "rows.csv", "diagnosis", ""]
    output = init("--model", "mlp", typed="\n".join(answers) + "\n")
    site = read_site(Path("a/site.toml"))
    assert (site.agent, site.carrier, site.relay) == ("a", "relay", ("relay.example:443",))
    assert (site.data, site.label, site.shared, site.model) == ("rows.csv", "diagnosis", "shared.csv", "mlp")
    assert "host:port of the relay" in output and "Model (" not in output
