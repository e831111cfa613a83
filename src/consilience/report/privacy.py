"""The privacy card of a run, and the results of an audit, as sentences and tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from consilience.report.tables import Grid
from consilience.runtime.run import Run

if TYPE_CHECKING:
    from consilience.audit.attacks import Measured
    from consilience.audit.audit import Audit

NOT_COVERED = (
    "the shared data",
    "the number of private rows, which sets the number of steps",
    "how long training takes",
    "what is true of the rows as a whole, such as their mix of classes",
    "scores and losses in this report, which are measured on private rows and stay with whoever runs the agent",
)
SPENT = ("epsilon", "budget", "delta", "noise", "clip", "rounds", "stopped")


def privacy_card(run: Run) -> dict[str, Any]:
    """What was sent, how often, to whom, and which privacy it has: for every run, private or not."""
    agents = [agent for agent in run.summary.agents if agent.model != "unknown"]
    private = [agent for agent in agents if agent.privacy]
    sending = run.metrics[run.metrics["bytes_sent"] > 0]
    rounds = int(sending["round"].nunique())
    what = "predictions on the shared data" if run.weighed else "weights" if rounds else "nothing"
    return {
        "facts": [
            ["what left", f"{what}: {run.summary.shared_text}" if run.weighed else what],
            ["how often", f"{rounds} times, once in every round of collaboration" if rounds else "never"],
            ["to whom", f"all {len(run.names) - 1} peers" if rounds else "nobody"],
            ["unit of privacy", "one private row (added or removed)" if private else "none: nothing is promised"],
            *([["random numbers", ", ".join(sorted({_generator(a.privacy) for a in private}))]] if private else []),
        ],
        "agents": [{"name": agent.name} | {key: agent.privacy.get(key) for key in SPENT} for agent in private],
        "unprotected": [agent.name for agent in agents if not agent.privacy],
        "not_covered": list(NOT_COVERED),
        "notes": budget_notes(run),
    }


def budget_notes(run: Run) -> list[str]:
    """A sentence for every agent whose budget was spent before the end."""
    return [
        f"Agent {agent.name}: its budget of epsilon {agent.privacy['budget']:g} was spent before round "
        f"{agent.privacy['stopped']}; from then on it did not train, and repeated its last predictions."
        for agent in run.summary.agents
        if agent.privacy and agent.privacy.get("stopped")
    ]


def attack_grid(audit: "Audit") -> Grid:
    """One row per attack on membership."""
    rows = [
        (attack.name, _interval(attack.auc), _interval(attack.at_1_percent), _interval(attack.at_01_percent))
        for attack in audit.attacks
    ]
    count = f"{audit.attacks[0].members} private rows, {audit.attacks[0].others} others" if audit.attacks else ""
    headings = ("attack", "AUC", "found at 1 % false", "at 0.1 %")
    return Grid(f"Telling private rows from others ({count}); 95 % intervals", headings, rows, words=1)


def several_grid(audits: "Sequence[Audit]") -> Grid:
    """One row per attack on membership, over several runs."""
    rows = []
    for same in zip(*(audit.attacks for audit in audits), strict=True):
        values = [attack.auc.value for attack in same]
        holds = sum(attack.auc.low <= 0.5 <= attack.auc.high for attack in same)
        rates = ("at_1_percent", "at_01_percent")
        at = [sum(getattr(attack, rate).value for attack in same) / len(same) for rate in rates]
        ends = f"{min(values):.3f} to {max(values):.3f}"
        rows.append(
            (same[0].name, f"{sum(values) / len(same):.3f}", ends, f"{holds} of {len(same)}", *map("{:.3f}".format, at))
        )
    headings = ("attack", "mean AUC", "from, to", "0.5 is in the interval", "found at 1 % false", "at 0.1 %")
    return Grid(f"Telling private rows from others in {len(audits)} runs", headings, rows, words=1)


def class_grid(audit: "Audit") -> Grid:
    """One row per agent: how near the guessed class distribution is."""
    rows = [(guess.agent, f"{guess.distance:.3f}", f"{guess.blind:.3f}") for guess in audit.classes]
    title = "Guessing the classes of private data: distance to the truth (0 exact, 1 wrong)"
    return Grid(title, ("agent", "from its predictions", "from its peers' alone"), rows)


def audit_sentences(audit: "Audit") -> list[str]:
    """The bound from the canaries, in words."""
    claim = "nothing is claimed" if audit.claimed is None else f"{audit.claimed:.3f} is claimed"
    if audit.bound is None:
        advice = "Run with canaries=40, if rows are numbers."
        return [f"The run has no canaries, so that epsilon is not bounded from below ({claim}). {advice}"]
    sentence = f"From {audit.canaries} canaries: epsilon is at least {audit.bound:.3f} (95 % confidence); {claim}."
    if audit.broken:
        sentence += " The mechanism does NOT keep its promise."
    return [sentence]


def _generator(privacy: dict[str, Any]) -> str:
    return {
        "seed": "from the seed of the run, so that anyone who knows it can repeat them: for experiments only",
        "secret": "from a secret of the site",
        "operating system": "from the operating system (secure)",
    }.get(privacy["generator"], str(privacy["generator"]))


def _interval(value: "Measured") -> str:
    return f"{value.value:.3f} ({value.low:.3f}-{value.high:.3f})"
