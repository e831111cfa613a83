"""Which models are heads on backbones."""

import pytest

from consilience.agents.backbones.names import PACKAGED, is_backbone


@pytest.mark.parametrize("name", [*PACKAGED, "hf:microsoft/resnet-18", "hf:/models/mine"])
def test_packaged_backbones_and_models_of_hugging_face_are(name):
    assert is_backbone(name)


@pytest.mark.parametrize("name", ["mlp", "efficientnet", "linear", "a-hf:b", ""])
def test_other_models_are_not(name):
    assert not is_backbone(name)
