"""Settings that follow where every agent learns one layer on a frozen backbone."""

from typing import Any

from consilience.agents.backbones.names import is_backbone
from consilience.base.options import to_table
from consilience.methods.consensus import HEADS_NOTE, Consensus
from consilience.settings.settings import Settings

ROUNDS = 30


def tables_for_heads(asked: dict[str, Any]) -> dict[str, Any]:
    """Tables of settings for heads on backbones that classify: one exact step a round, `Consensus.for_heads`.

    Args:
        asked: All settings as tables, as the user has them. Without heads, or for private agents, nothing follows.
    """
    models, private = asked["agents"]["models"], asked["agents"]["privacy"]["epsilon"]
    by_class, method = asked["data"]["task"] == "classification", asked["method"].get("name")
    if not models or not all(map(is_backbone, models)) or private or not by_class:
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
