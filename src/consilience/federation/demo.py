"""A federation on one machine, for trials: each site has a folder and a process, on loopback."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import data_folder, write_atomically
from consilience.data.scenario import Scenario
from consilience.federation.membership import make_keys, new_federation, sign_federation, write_site
from consilience.federation.networks import RELAY, inside, star
from consilience.federation.peers.network import CARRIERS
from consilience.federation.peers.ports import free_addresses
from consilience.federation.site import Site
from consilience.runtime.run import Run, load_run
from consilience.settings.presets import read_settings
from consilience.settings.settings import Settings
from consilience.settings.wiring import build_scenario, crossing_of

OnLine = Callable[[str, str], None]
"""Is given a site's name and a line that it printed."""


def lay_out(
    settings: Settings,
    scenario: Scenario,
    folder: Path,
    deadline: float,
    quorum: int | None = None,
    start_wait: float = 60.0,
    reached_by: dict[str, Any] | None = None,
) -> dict[str, Path]:
    """Writes folders for all sites, with keys, data and site.toml, and one federation file.

    Args:
        settings: Settings, of which the federation agrees on some.
        scenario: The data of all sites.
        folder: Where to write.
        deadline: Seconds after which a round closes without those who are missing.
        quorum: Agents needed in a round; None for the smallest safe number.
        start_wait: Seconds in which all members are waited for before round 1.
        reached_by: The entries of site.toml on carriers; None for direct links, each site with an address on loopback.

    Returns:
        The path of each site's site.toml.
    """
    count = len(scenario.shares)
    addresses = [""] * count if reached_by else free_addresses(count)
    sites: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "shared.npz", x=scenario.shared)
    np.savez(folder / "target.npz", x=scenario.target_x, y=scenario.target_y)
    models = cycle(settings.agents.models)
    for (name, share), address, model in zip(scenario.shares.items(), addresses, models, strict=False):
        site = folder / name
        make_keys(site, name, address, folder / "trial-ca", samples=len(share.y))
        np.savez(site / "train.npz", x=share.x, y=share.y)
        np.savez(site / "test.npz", x=share.test_x, y=share.test_y)
        sites[name] = site / "site.toml"
        write_site(
            sites[name],
            Site(
                name,
                federation="../federation.toml",
                shared="../shared.npz",
                target="../target.npz",
                model=model,
                data="train.npz",
                test="test.npz",
                **(reached_by or {}),
            ),
        )
    members = [path.parent / "member.toml" for path in sites.values()]
    crossed, backbone = crossing_of(settings, scenario)
    federation = new_federation(
        settings.data.dataset,
        folder / "shared.npz",
        scenario.classes,
        members,
        settings,
        deadline,
        quorum,
        start_wait=start_wait,
        crossed=crossed,
        backbone=backbone,
    )
    write_atomically(folder / "federation.toml", federation.to_toml().encode())
    for site_file in sites.values():
        sign_federation(folder / "federation.toml", site_file)
    return sites


def entries_of(carrier: str, *relays: str) -> dict[str, Any] | None:
    """The entries of site.toml on a carrier, for sites whose folders are side by side; None for direct links."""
    if carrier == "relay":
        return {"carrier": carrier, "relay": relays, "ca": "../trial-ca/ca.crt"}
    return {"carrier": carrier, "folder": "../exchange"} if carrier == "folder" else None


def start_command(*arguments: str, namespace: str = "") -> "subprocess.Popen[str]":
    """The process of a command of the program, in a network namespace if one is named."""
    command = inside(namespace, [sys.executable, "-m", "consilience", *arguments])
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "160"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@contextmanager
def relayed(folder: Path, address: str, namespace: str = "") -> Iterator[None]:
    """A relay for the federation in a folder, with a certificate of its CA for trials."""
    options = ["--listen", address, "--allow", str(folder / "federation.toml"), "--trial-ca", str(folder / "trial-ca")]
    process = start_command("relay", *options, namespace=namespace)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "listening" not in line:
            raise ConsilienceError(f"the relay did not begin: {line}{process.stdout.read()}")
        yield
    finally:
        process.terminate()
        process.wait()


def run_demo(out: Path, say: OnLine, ready: Callable[[], None], carrier: str = "direct") -> dict[str, Run]:
    """Runs four sites with four kinds of models, from keys to run folders.

    With the heart-disease data, if they are in the folder of real data, they are four hospitals.

    Args:
        out: A new folder for all of it.
        say: Is given a site's name and a line that it printed; "" for the demo itself.
        ready: Is called when the processes start.
        carrier: direct, relay (with root in network namespaces, of which none has a route to another) or folder.
    """
    if carrier not in CARRIERS:
        raise ConsilienceError(f"{carrier!r} is no carrier. There are {', '.join(CARRIERS)}.")
    if out.exists():
        raise ConsilienceError(f"{out} exists and is not overwritten. Choose another folder, or remove it.")
    data = data_folder()
    real = data is not None and (data / "heart-disease").is_dir()
    models = ["forest", "boosting", "cnn", "logistic"]
    changes = {} if real else {"agents.count": 4, "models": models, "low_quality": []}
    settings = read_settings("hospitals" if real else "digits", changes)
    scenario = build_scenario(settings)
    with ExitStack() as stack:
        spaces, relay = dict[str, str](), ""
        if carrier == "relay":
            try:
                spaces = stack.enter_context(star(list(scenario.shares)))
                say("", "each site is in a network namespace with a route to the relay, and none to another site")
            except ConsilienceError as error:
                say("", f"all on loopback: {error}")
            relay = f"{RELAY}:7447" if spaces else free_addresses(1)[0]
        sites = lay_out(settings, scenario, out, deadline=60.0, reached_by=entries_of(carrier, relay))
        ready()
        if relay:
            stack.enter_context(relayed(out, relay, spaces.get("", "")))
        return _run_sites(sites, spaces, say)


def _run_sites(sites: dict[str, Path], spaces: dict[str, str], say: OnLine) -> dict[str, Run]:
    processes = {
        name: start_command("site", "run", "--site", str(path), namespace=spaces.get(name, ""))
        for name, path in sites.items()
    }
    try:
        readers = [Thread(target=_pass_on, args=(name, p, say), daemon=True) for name, p in processes.items()]
        for reader in readers:
            reader.start()
        failed = [name for name, process in processes.items() if process.wait() != 0]
        for reader in readers:
            reader.join()
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
                process.wait()
    if failed:
        raise ConsilienceError(f"the process of {', '.join(failed)} failed; its lines above say why.")
    return {name: load_run(path.parent / "run") for name, path in sites.items()}


def _pass_on(name: str, process: "subprocess.Popen[str]", say: OnLine) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        head, colon, text = line.rstrip().partition(": ")
        if colon and head == name:
            say(name, text)
        elif line.startswith("error"):
            say(name, line.rstrip())
