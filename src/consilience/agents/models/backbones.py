"""Linear heads on frozen pretrained backbones; torch is imported when one is made."""

from dataclasses import replace
from typing import TYPE_CHECKING

from consilience.agents.backbones.names import PACKAGED
from consilience.agents.models import COSTS, MODELS, AgentSpec, Cost, model_named
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows

if TYPE_CHECKING:
    from consilience.agents.backbones.backbone import Backbone

_loaded: "dict[str, Backbone]" = {}
_standardised: "dict[str, tuple[Rows, Backbone]]" = {}


def backbone_named(name: str) -> "Backbone":
    """The backbone of this name, loaded once for all agents of this process."""
    from consilience.agents.backbones.backbone import Backbone

    if name not in _loaded:
        _loaded[name] = Backbone(name)
    return _loaded[name]


def standardised(name: str, shared: Rows) -> "Backbone":
    """The backbone of this name, standardised by the shared rows: one object for all agents of this process."""
    last = _standardised.get(name)
    if last is None or last[0] is not shared:
        last = _standardised[name] = (shared, backbone_named(name).standardised(shared))
    return last[1]


def _head(spec: AgentSpec) -> Agent:
    """An agent that learns one linear layer on standardised features of raw rows."""
    if spec.shared is None:
        raise ConsilienceError(
            f"agent {spec.name!r}: the model {spec.model!r} standardises its features by the shared data, and there "
            "are none here."
        )
    transform = standardised(spec.model, spec.shared)
    return model_named("linear")(replace(spec, model="linear", title=spec.title or spec.model, transform=transform))


for _name in PACKAGED:
    MODELS.add(_name)(_head)
    COSTS[_name] = Cost(8)
