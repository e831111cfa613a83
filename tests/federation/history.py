"""What happened between sites, checked from their audit logs alone, in the manner of Jepsen.

No clock is compared with another. `problems` says in sentences what must never happen and did.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from consilience.federation.peers.audit import broken_at, read_audit
from consilience.federation.peers.federation import Federation
from consilience.federation.peers.untrusted_input import read_federation

Events = dict[str, list[dict[str, Any]]]


def problems(runs: dict[str, Path], honest: Collection[str]) -> list[str]:
    """Of the run folders of the `honest` sites of a federation, by name."""
    runs = {name: runs[name] for name in honest}
    unfinished = [f"{name} has no summary" for name, run in runs.items() if not (run / "summary.json").is_file()]
    missing = [name for name, run in runs.items() if not (run / "audit.jsonl").is_file()]
    if missing:
        return [f"{name} has no audit log" for name in missing]
    federation = read_federation(next(iter(runs.values())) / "federation.toml")
    events = {name: read_audit(run / "audit.jsonl") for name, run in runs.items()}
    broken = [
        f"the log of {name} is broken at line {line}"
        for name, run in runs.items()
        if (line := broken_at(run / "audit.jsonl", federation.member(name).key)) is not None
    ]
    return [*unfinished, *broken, *history_problems(events, federation)]


def history_problems(events: Events, federation: Federation) -> list[str]:
    """What the logs of the honest sites show that must never happen."""
    return [
        *_two_stories(events),
        *_not_as_sent(events),
        *_below_quorum(events, federation.quorum),
        *_backwards(events),
        *_led_away(events),
        *_heard_the_revoked(events),
    ]


def _closed(events: Events) -> Iterator[tuple[str, int, dict[str, str]]]:
    for name, log in events.items():
        for event in log:
            if event["event"] == "round":
                yield name, event["round"], event["heard"]


def _two_stories(events: Events) -> Iterator[str]:
    """No two honest sites used different frames of one peer for a round, unless they caught it and have the proof."""
    caught = {event["agent"] for log in events.values() for event in log if event["event"] == "excluded"}
    used: dict[tuple[str, int], set[str]] = {}
    for _, number, heard in _closed(events):
        for peer, digest in heard.items():
            used.setdefault((peer, number), set()).add(digest)
    for (peer, number), digests in used.items():
        if len(digests) > 1 and peer not in caught:
            yield f"{len(digests)} different frames of {peer} were used for round {number}, and nobody noticed"
    for peer in caught & events.keys():
        yield f"{peer}, which is honest, was excluded"


def _not_as_sent(events: Events) -> Iterator[str]:
    """An honest site sends one frame for a round, and nobody uses another one of it."""
    sent: dict[tuple[str, int], set[str]] = {}
    for name, log in events.items():
        for event in log:
            if event["event"] == "sent":
                sent.setdefault((name, event["round"]), set()).add(event["hash"])
    for (name, number), digests in sent.items():
        if len(digests) > 1:
            yield f"{name} signed round {number} twice"
    for name, number, heard in _closed(events):
        for peer, digest in heard.items():
            if peer in events and digest not in sent.get((peer, number), set()):
                yield f"{name} used something for round {number} that {peer} did not send"


def _below_quorum(events: Events, quorum: int) -> Iterator[str]:
    for name, number, heard in _closed(events):
        if len(heard) + 1 < quorum:
            yield f"{name} closed round {number} with {len(heard) + 1} agents; {quorum} are a quorum"


def _backwards(events: Events) -> Iterator[str]:
    """Rounds go forward; after a restart the last one may be closed again, if it was not saved."""
    for name, log in events.items():
        last, restarted = 0, True
        for event in log:
            if event["event"] == "start":
                restarted = True
            elif event["event"] == "round":
                if event["round"] < last or (event["round"] == last and not restarted):
                    yield f"{name} closed round {event['round']} after round {last}"
                last, restarted = event["round"], False


def _led_away(events: Events) -> Iterator[str]:
    """Nobody is in a round unless an honest site closed the one before it: no liar leads anybody there."""
    closed = {number for _, number, _ in _closed(events)}
    sent = {event["round"] for log in events.values() for event in log if event["event"] == "sent"}
    for number in sorted(sent)[1:]:
        if number - 1 not in closed:
            yield f"round {number} was begun, and nobody honest closed round {number - 1}"


def _heard_the_revoked(events: Events) -> Iterator[str]:
    """Who was revoked is not heard again, whatever is killed and started again."""
    for name, log in events.items():
        revoked = set[str]()
        for event in log:
            if event["event"] == "revoked":
                revoked.add(event["agent"])
            elif event["event"] == "round":
                for peer in sorted(revoked & event["heard"].keys()):
                    yield f"{name} heard {peer} in round {event['round']}, after it was revoked"
