"""Settings that follow where every agent learns one layer on a frozen backbone."""

from typing import Any

from consilience.agents.backbones.names import is_backbone
from consilience.base.options import from_table, to_table
from consilience.methods.consensus import HEADS_NOTE, Consensus
from consilience.settings.settings import Agents, Settings

ROUNDS = 30
"""Rounds of these agents, where nothing else is set."""


def tables_for_heads(asked: dict[str, Any]) -> dict[str, Any]:
    """Tables of settings for heads on backbones that classify: one exact step a round, `Consensus.for_heads`.

    Args:
        asked: All settings as tables, as the user has them. Without heads, or for private agents, nothing follows.
    """
    agents = from_table(Agents, asked["agents"], "settings.agents")
    if not all(map(is_backbone, agents.models)) or agents.privacy.on or asked["data"]["task"] != "classification":
        return {}
    own, usual = to_table(Consensus.for_heads()), to_table(Consensus())
    return {
        "training": {"epochs": 1},
        "method": {key: value for key, value in own.items() if value != usual[key]},
        "run": {"rounds": ROUNDS},
    }


def heads_notes(settings: Settings) -> list[str]:
    """A sentence, if these settings are those of heads on backbones."""
    heads, method = Consensus.for_heads(), settings.method
    same = isinstance(method, Consensus) and (method.duals, method.mean) == (heads.duals, heads.mean)
    return [HEADS_NOTE] if same and all(map(is_backbone, settings.agents.models)) else []
