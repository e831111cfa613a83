"""A federation on one machine, for trials: each site has a folder and a process, on loopback."""

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from threading import Thread

import numpy as np

from consilience.base.errors import ConsilienceError
from consilience.base.files import data_folder, write_atomically
from consilience.data.scenario import Scenario
from consilience.federation.membership import make_keys, new_federation, sign_federation, write_site
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
) -> dict[str, Path]:
    """Writes folders for all sites, with keys, data and site.toml, and one federation file.

    Returns:
        The path of each site's site.toml.
    """
    addresses = free_addresses(len(scenario.shares))
    sites: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "shared.npz", x=scenario.shared)
    np.savez(folder / "target.npz", x=scenario.target_x, y=scenario.target_y)
    models = cycle(settings.agents.models)
    for (name, share), address, model in zip(scenario.shares.items(), addresses, models, strict=False):
        site = folder / name
        make_keys(site, name, address, folder / "trial-ca")
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


def start_agent(site: Path) -> "subprocess.Popen[str]":
    """The process of one site."""
    command = [sys.executable, "-m", "consilience", "site", "run", "--site", str(site)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "160"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def run_demo(out: Path, say: OnLine, ready: Callable[[], None]) -> dict[str, Run]:
    """Runs four sites with four kinds of models, from keys to run folders.

    With the heart-disease data, if they are in the folder of real data, they are four hospitals.

    Args:
        out: A new folder for all of it.
        say: Is given a site's name and a line that it printed.
        ready: Is called when the processes start.
    """
    if out.exists():
        raise ConsilienceError(f"{out} exists and is not overwritten. Choose another folder, or remove it.")
    data = data_folder()
    real = data is not None and (data / "heart-disease").is_dir()
    models = ["forest", "boosting", "cnn", "logistic"]
    changes = {} if real else {"agents.count": 4, "models": models, "low_quality": []}
    settings = read_settings("hospitals" if real else "digits", changes)
    sites = lay_out(settings, build_scenario(settings), out, deadline=60.0)
    ready()
    processes = {name: start_agent(path) for name, path in sites.items()}
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
