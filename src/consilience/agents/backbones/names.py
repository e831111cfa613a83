"""Names of backbones. Nothing is imported for them."""

PACKAGED = ("efficientnet-lite0", "efficientnet-lite1", "minilm")
"""Backbones whose weights come inside packages."""
HUGGING_FACE = "hf:"
"""How the name of a folder or a model of Hugging Face begins."""


def is_backbone(model: str) -> bool:
    """Whether a model is a linear head on a backbone."""
    return model in PACKAGED or model.startswith(HUGGING_FACE)
