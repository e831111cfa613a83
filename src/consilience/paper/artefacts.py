"""All artefacts of the paper, in the order in which they are listed. Each is made in the file of its name."""

from consilience.base.errors import ConsilienceError
from consilience.paper import (
    communication,
    fig1,
    fig2,
    fig3,
    fig4,
    fig5,
    figA1,
    lines,
    schedule,
    table1,
    theory,
)
from consilience.paper.artefact import Artefact

_FILES = (fig1, figA1, fig2, fig3, table1, schedule, fig4, fig5, lines, communication, theory)

ARTEFACTS: tuple[Artefact, ...] = tuple(known for file in _FILES for known in file.ARTEFACTS)


def artefact(name: str) -> Artefact:
    """An artefact by name."""
    by_name = {known.name: known for known in ARTEFACTS}
    if name not in by_name:
        raise ConsilienceError(f"unknown artefact {name!r}. Known: {', '.join(by_name)}.")
    return by_name[name]
