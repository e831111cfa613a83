"""Options of training: augmentation, a class-balanced loss, and what they cost."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from consilience import ConsilienceError, TorchAgent
from consilience.agents.networks import convnet
from consilience.agents.training import Training
from consilience.core.class_prior import class_offsets
from consilience.privacy.options import Privacy
from tests.conftest import blobs
from tests.torch_options import torch_options

ALL = {"augment": "crop-flip", "class_balanced": True}
pytestmark = pytest.mark.usefixtures("one_thread")


def images(seed: int, samples: int = 24) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(size=(samples, 3, 16, 16)).astype(np.float32), draw.integers(0, 3, samples)


def image_agent(**options) -> TorchAgent:
    torch.manual_seed(0)
    return TorchAgent(
        convnet((3, 16, 16), 3, width=4), *images(0), "a", **torch_options(batch=8, shared_batch=8, epochs=2, **options)
    )


SHARED = images(1, 20)[0]
LABELS = np.random.default_rng(2).dirichlet(np.ones(3), 20).astype(np.float32)


@pytest.mark.parametrize("options", [ALL, *({key: value} for key, value in ALL.items())])
def test_every_option_changes_training_and_resumes_bit_for_bit(options):
    plain, whole, stopped, resumed = image_agent(), *(image_agent(**options) for _ in range(3))
    for agent in (plain, whole):
        for _ in range(3):
            agent.train(SHARED, LABELS, 0.5)
    assert not np.array_equal(plain.predict(SHARED), whole.predict(SHARED))
    stopped.train(SHARED, LABELS, 0.5)
    resumed.restore(stopped.state(), SHARED)
    np.testing.assert_array_equal(resumed.predict(SHARED), stopped.predict(SHARED))
    for _ in range(2):
        resumed.train(SHARED, LABELS, 0.5)
    np.testing.assert_array_equal(resumed.predict(SHARED), whole.predict(SHARED))
    for key, value in whole.state().items():
        np.testing.assert_array_equal(value, resumed.state()[key], err_msg=key)


def test_the_class_balanced_loss_is_cross_entropy_with_offsets():
    x, y = blobs(30, seed=1)
    agent = TorchAgent(
        nn.Linear(x.shape[1], 3), x, y, training=Training(batch=30, epochs=1, class_balanced=True, batched=False)
    )
    with torch.no_grad():
        out = agent.model(torch.from_numpy(x)) + torch.from_numpy(class_offsets(np.bincount(y, minlength=3), 3))
        expected = functional.cross_entropy(out, torch.from_numpy(y))
    assert agent.train(None, None, 0.0).local == pytest.approx(expected.item(), rel=1e-6)


def test_the_class_balanced_loss_follows_classes_that_are_renumbered():
    """Words are numbered in each agent's own order first, and then in that of all agents together."""
    x, y = blobs(30, seed=1)
    y = np.where(np.arange(30) < 22, 1, y % 2)
    words = np.array(["mild", "severe"])[y]
    agent = TorchAgent(
        nn.Linear(x.shape[1], 3), x, words, training=Training(batch=30, epochs=1, class_balanced=True, batched=False)
    )
    agent.rename(("severe", "none", "mild"))
    counts = [(words == name).sum() for name in ("severe", "none", "mild")]
    with torch.no_grad():
        out = agent.model(torch.from_numpy(x)) + torch.from_numpy(class_offsets(counts, 3)).float()
        expected = functional.cross_entropy(out, torch.from_numpy(np.where(y == 1, 0, 2)))
    assert agent.train(None, None, 0.0).local == pytest.approx(expected.item(), rel=1e-6)


def test_pseudo_labels_are_not_corrected_for_the_agents_own_classes():
    x, y = blobs(30, seed=1)
    labels = np.full((30, 3), 1 / 3, dtype=np.float32)
    agents = [
        TorchAgent(
            nn.Linear(x.shape[1], 3),
            x,
            y,
            training=Training(batch=30, shared_batch=30, epochs=1, class_balanced=on, batched=False),
        )
        for on in (False, True)
    ]
    agents[1].model.load_state_dict(agents[0].model.state_dict())
    one, two = (agent.train(x, labels, 1.0) for agent in agents)
    assert one.local != two.local
    assert one.disagreement == two.disagreement


@pytest.mark.parametrize("batched", [False, True])
def test_samples_passed_forward_and_back_and_forward_only(batched):
    from tests.agents.together import train_all

    x, y = blobs(50, seed=1)
    labels = np.full((40, 3), 1 / 3, dtype=np.float32)
    shared = blobs(40, seed=2)[0]
    options = {"batch": 16, "shared_batch": 20, "epochs": 3, "batched": batched}
    model = nn.Sequential(nn.Linear(x.shape[1], 4), nn.ReLU(), nn.Linear(4, 3))
    agent = TorchAgent(model, x, y, "a", **torch_options(**options))
    assert train_all([agent], shared, {}, 0.0)["a"].trained == 3 * 50
    together = train_all([agent], shared, {"a": labels}, 0.5)["a"]
    assert (together.trained, together.forward) == (3 * 50 + agent.steps * 20, 0)


def test_a_shared_pass_without_weight_goes_forward_only():
    found = image_agent().train(SHARED, LABELS, 0.0)
    assert (found.trained, found.forward) == (2 * 24, 2 * 20)  # six steps, each with a third of 20 shared samples


def test_what_does_not_fit_is_refused():
    x, y = blobs(20, seed=1)
    with pytest.raises(ConsilienceError, match="class_balanced is for classes, and regression has none"):
        TorchAgent(nn.Linear(x.shape[1], 1), x, x[:, :1], task="regression", training=Training(class_balanced=True))
    with pytest.raises(ConsilienceError, match=r"class_balanced.*would tell"):
        TorchAgent(nn.Linear(x.shape[1], 3), x, y, training=Training(class_balanced=True), privacy=Privacy(epsilon=1.0))
