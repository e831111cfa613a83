"""The model card: README.md of an exported folder, for whoever finds it, and what it says of the run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from consilience.agents.calibrated import MODELS
from consilience.data.columns import brief_list
from consilience.export.manifest import Manifest
from consilience.runtime.history import PLACES
from consilience.runtime.run import Run
from consilience.tasks import task_named


@dataclass(frozen=True)
class Facts:
    """What the model card says beside what the agent knows of itself."""

    classes: tuple[str, ...] = ()
    training: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    about: str = ""
    """What was done to the samples before the model saw them, in a sentence."""
    largest: int = 0
    """The largest number in raw pixels, where samples are such."""
    advice: tuple[str, ...] = ()
    """Which model to use where, in words."""


_COMMON = ("target", "")
"""In an experiment the sample of the target domain is common to all; at a site it is the site's own."""


Advise = Callable[[Run, str], Sequence[str]]
"""Says which model an agent should use where."""


def no_advice(run: Run, agent: str) -> Sequence[str]:
    """Nothing."""
    return ()


def facts_of(run: Run, agent: str, columns: tuple[str, ...] = (), about: str = "", advise: Advise = no_advice) -> Facts:
    """Class names, how the agent was trained, and its scores after its last round.

    Of an agent that promises privacy there are no scores on an organisation's own rows, and no fingerprint of data with
    private rows in it.
    """
    summary, table = run.summary, run.last_round()
    spent = next((entry.privacy for entry in summary.agents if entry.name == agent), {})
    measured_on = [on for on in PLACES if not spent or on == "shared" or (on, summary.federation) == _COMMON]
    training: dict[str, Any] = {
        "dataset": summary.dataset,
        "method": summary.title,
        "peers": len(summary.agents),
        "rounds": summary.rounds,
        "round": int(table["round"].max()),
        "warmup": summary.warmup,
        "seed": summary.seed,
        "shared_data" if summary.federation else "data": summary.data,
        "federation": summary.federation,
        "privacy": _privacy(spent),
    }
    row = table[table["agent"] == agent].iloc[0]
    names = [f"{score.name}_{on}" for on in measured_on for score in summary.scores]
    scores = {name: float(row[name]) for name in names if name in row and isfinite(row[name])}
    return Facts(
        tuple(summary.classes),
        {key: value for key, value in training.items() if value not in (None, "")},
        scores,
        columns,
        about,
        advice=tuple(advise(run, agent)),
    )


def _privacy(spent: dict[str, Any]) -> str:
    """What a private agent promises of each of its private rows; empty if nothing."""
    if not spent:
        return ""
    if spent["epsilon"] is None:
        return "no bound: the noise is too small for one"
    return f"epsilon {spent['epsilon']:.3f} at delta {spent['delta']:g} for each private row"


_PLACES = {"shared": "shared data", "target": "target domain", "own": "own test data"}
_FACTS = {
    "dataset": "data",
    "method": "method",
    "peers": "agents, this one included",
    "rounds": "rounds",
    "round": "trained up to round",
    "warmup": "rounds alone before the first exchange",
    "seed": "seed",
    "lam": "weight of the pseudo-labels",
    "samples": "private training samples",
    "class_counts": "private samples of each class",
    "privacy": "differential privacy",
    "private_data": "fingerprint of the private training data",
    "data": "fingerprint of all data of the run",
    "shared_data": "fingerprint of the shared data",
    "federation": "identity of the federation file",
}


def card(manifest: Manifest) -> str:
    """The text of README.md."""
    lines = [
        f"# {manifest.agent}: {manifest.kind}",
        "",
        f"A model for {manifest.task}, trained on private data and on the predictions of peers for shared unlabelled "
        "data (Collaborative Learning via Prediction Consensus). The training data are not in this folder, but a model "
        "can tell of them: nearest neighbours and support vectors are training samples, a vocabulary has their words.",
        "",
        "## Predict",
        "",
        "```",
        "consilience predict samples.csv --model .        # or parquet, npz (x), npy; writes predictions.csv",
        "```",
        "",
        "```python",
        "import consilience as cs",
        "",
        'model = cs.load_model(".")',
        f"model.predict(x)    # (samples, {manifest.outputs}): {brief_list(manifest.names)}",
        "```",
        "",
        f"A sample is {_sample(manifest)}.",
    ]
    prepared = any(file.role == "prepare" for file in manifest.parts)
    if manifest.inputs.about:
        lines.append(manifest.inputs.about)
    if any(file.form == "onnx" for file in manifest.parts):
        takes = "; it takes prepared samples" if prepared else ""
        lines.append(f"`model.onnx` does the same in any ONNX runtime: input `x`, output `predictions`{takes}.")
    if prepared:
        lines.append("What prepares the samples is in the folder and is applied first: give them raw.")
    if manifest.inputs.meanings:
        lines += ["", "| column | what it holds and what is done with it |", "|---|---|"]
        cells = [(name, str(meaning)) for name, meaning in manifest.inputs.meanings.items()]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
        lines += ["", "Columns may be in any order; others, such as the label, are ignored."]
    lines += _models(manifest)
    lines += ["", "## Measured after training", "", *_scores(manifest), "", "## Training", "", "| | |", "|---|---|"]
    for key, title in _FACTS.items():
        value = manifest.training.get(key)
        if value not in (None, "", []):
            lines.append(f"| {title} | {', '.join(map(str, value)) if isinstance(value, list) else value} |")
    versions = ", ".join(f"{name} {number}" for name, number in manifest.versions.items())
    lines += ["", f"Versions: {versions}.", "", "## Files", ""]
    meanings = {file.file: f"{file.role}, {file.form}" for file in manifest.parts}
    lines += ["- `model.json`: everything on this page for programs, and the SHA-256 of the other files"]
    lines += [f"- `{name}`: {meanings[name]}" for name in manifest.files]
    lines += [
        "",
        "Nothing in this folder is unpickled: a changed file or an unknown type is refused. Checksums guard against "
        "accidents; take folders only from people whom you trust. Add to this page what its readers should know.",
        "",
    ]
    return "\n".join(lines)


def _models(manifest: Manifest) -> list[str]:
    """Which models are in the folder, and which to use where."""
    if not manifest.calibration:
        return []
    needed = {"alone"} | ({"home"} if len(manifest.calibration["home"][0]) != 2 else set())
    known = {name: text for name, text in MODELS.items() if manifest.alone or name not in needed}
    lines = ["", "## Which model", "", *(f"- {sentence}" for sentence in manifest.advice)]
    lines += [f'- `--for {name}` and `at="{name}"`: {text}' for name, text in known.items()]
    return [*lines, "", f"Without it, predictions are those of: {MODELS[manifest.at]}."]


def _scores(manifest: Manifest) -> list[str]:
    """A table of scores by the data they were measured on; a sentence where nothing was measured."""
    table = {
        score.title: [manifest.scores.get(f"{score.name}_{data}") for data in PLACES]
        for score in task_named(manifest.task).scores
    }
    measured = [number for number in range(len(PLACES)) if any(row[number] is not None for row in table.values())]
    if not measured and "privacy" in manifest.training:
        return ["Not on this page: scores on an organisation's own rows are exact, and would tell of these rows."]
    if not measured:
        return ["Nothing: no labelled test data were given."]
    head = " | ".join(_PLACES[PLACES[number]] for number in measured)
    lines = [f"| | {head} |", f"|---|{'---:|' * len(measured)}"]
    for title, row in table.items():
        cells = ["-" if row[number] is None else f"{row[number]:.3f}" for number in measured]
        if set(cells) != {"-"}:
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def _sample(manifest: Manifest) -> str:
    inputs = manifest.inputs
    if inputs.kind == "texts":
        return "a text"
    if inputs.kind == "arrays":
        return f"several arrays by name: {', '.join(f'{name} {tuple(shape)}' for name, shape in inputs.parts.items())}"
    if inputs.kind == "sparse":
        return f"a row of a sparse matrix with {inputs.shape[0]} columns"
    if inputs.largest:
        return f"an image of shape {inputs.shape} with raw pixels, whole numbers from 0 to {inputs.largest}"
    if inputs.columns:
        return f"a row with the columns {', '.join(inputs.columns)}"
    return f"an array of shape {inputs.shape} ({inputs.dtype})"
