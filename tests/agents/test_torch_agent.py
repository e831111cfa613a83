"""What a user relies on in an agent with a torch model."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from consilience import ConsilienceError, TorchAgent
from consilience.agents.training import Training
from tests.conftest import CLASSES, FEATURES, blobs


def network(seed: int = 0, dropout: float = 0.0, norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    middle: list[nn.Module] = [nn.BatchNorm1d(16)] if norm else []
    return nn.Sequential(nn.Linear(FEATURES, 16), *middle, nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, CLASSES))


def soft_labels(samples: int, seed: int = 5):
    return np.random.default_rng(seed).dirichlet(np.ones(CLASSES), samples).astype(np.float32)


def test_training_is_the_local_objective_with_adam_written_out(shared):
    """One round against a plain loop: L(f(x), y) + lam dist(f(x*), psi), private pass first."""
    x, y = blobs(50, seed=1)
    psi, lam = soft_labels(len(shared)), 0.7
    agent = TorchAgent(network(), x, y, "a", training=Training(epochs=2, batch=64, shared_batch=256, lr=5e-3))
    agent.train(shared, psi, lam)

    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(2):
        optimizer.zero_grad()
        local = functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
        log = functional.log_softmax(model(torch.from_numpy(shared)), dim=1)
        disagreement = -(torch.from_numpy(psi) * log).sum(1).mean()
        (local + lam * disagreement).backward()
        optimizer.step()
    for mine, plain in zip(agent.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-6)


def test_regression_uses_the_squared_distance(shared):
    x, _ = blobs(30, seed=1)
    y = x[:, :1] * 2
    torch.manual_seed(0)
    linear = nn.Linear(FEATURES, 1)
    agent = TorchAgent(
        linear,
        x,
        y,
        "a",
        task="regression",
        training=Training(epochs=1),
        optimizer=lambda p: torch.optim.SGD(p, lr=0.0),
    )
    psi = np.full((len(shared), 1), 3.0, np.float32)
    losses = agent.train(shared, psi, 1.0)
    assert losses.local == pytest.approx(float(np.square(agent.predict(x) - y).mean()), rel=1e-5)
    assert losses.disagreement == pytest.approx(float(np.square(agent.predict(shared) - 3).mean()), rel=1e-5)


def test_several_labels_use_the_binary_cross_entropy(shared):
    """One round against a plain loop; rows of labels and of pseudo-labels need not sum to one."""
    x, y = blobs(50, seed=1)
    flags = np.stack([y == 0, y > 0, x[:, 0] > 0], axis=1)
    psi, lam = np.random.default_rng(5).random((len(shared), CLASSES), np.float32), 0.7
    agent = TorchAgent(network(), x, flags, "a", task="multilabel", training=Training(epochs=2, lr=5e-3))
    losses = agent.train(shared, psi, lam)

    model, total = network(), 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(2):
        optimizer.zero_grad()
        own, star = model(torch.from_numpy(x)).sigmoid(), model(torch.from_numpy(shared)).sigmoid()
        target, labels = torch.from_numpy(flags.astype(np.float32)), torch.from_numpy(psi)
        local = -(target * own.log() + (1 - target) * (1 - own).log()).mean()
        disagreement = -(labels * star.log() + (1 - labels) * (1 - star).log()).mean()
        (local + lam * disagreement).backward()
        optimizer.step()
        total += local.item() / 2
    for mine, plain in zip(agent.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-3, atol=1e-5)
    assert losses.local == pytest.approx(total, rel=1e-4)
    assert agent.class_counts == flags.sum(axis=0).tolist()
    with torch.no_grad():
        np.testing.assert_allclose(agent.predict(shared), agent.model(torch.from_numpy(shared)).sigmoid(), atol=1e-6)


def test_predictions_are_probabilities_in_evaluation_mode(shared):
    x, y = blobs(50, seed=1)
    agent = TorchAgent(network(dropout=0.5, norm=True), x, y, "a")
    agent.train(shared, None, 0.0)
    first = agent.predict(shared)
    np.testing.assert_allclose(first.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(first, agent.predict(shared))


def test_labels_with_lambda_0_show_batch_norm_the_shared_data_and_teach_nothing(shared):
    """The statistics of a step are those of the private batch, then those of the shared one; no gradient is theirs."""
    x, y = blobs(50, seed=1)
    agent = TorchAgent(network(norm=True), x, y, "a", training=Training(epochs=1))
    plain = TorchAgent(network(norm=True), x, y, "a", training=Training(epochs=1))
    losses = agent.train(shared, soft_labels(len(shared)), 0.0)
    plain.train(shared, None, 0.0)
    for mine, theirs in zip(agent.model.parameters(), plain.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    first, before = network(norm=True)[0], torch.zeros(16)
    for seen in (x, shared):
        before = 0.9 * before + 0.1 * first(torch.from_numpy(seen)).mean(0)
    torch.testing.assert_close(agent.model[1].running_mean, before)
    assert np.isnan(losses.disagreement)


def test_a_single_class_is_enough_to_train(shared):
    x, _ = blobs(20, seed=1)
    agent = TorchAgent(network(), x, np.zeros(20, dtype=int), "a")
    agent.train(shared, soft_labels(len(shared)), 0.5)
    assert np.isfinite(agent.predict(shared)).all()


@pytest.mark.parametrize(
    ("model", "x", "y", "says"),
    [
        (nn.Linear(6, 3), np.zeros((0, 6), np.float32), np.zeros(0, int), "no training data"),
        (nn.Linear(6, 3), np.zeros((4, 6), np.float32), np.zeros(3, int), "4 samples but 3 labels"),
        (
            nn.Linear(6, 3),
            np.zeros((2, 6), np.float32),
            np.array([0, 3]),
            "need 4 outputs but the model has 3. Give the",
        ),
        (nn.Linear(6, 3), np.zeros((2, 6), np.float32), np.array(["a", None]), "label of row 1 is missing"),
        (nn.Linear(6, 3), np.zeros((2, 6), np.float32), np.array([0.5, 1.0]), "class numbers"),
        (nn.Flatten(0), np.zeros((2, 6), np.float32), np.array([0, 1]), "one row per sample"),
    ],
)
def test_bad_input_is_refused_with_advice(model, x, y, says):
    with pytest.raises(ConsilienceError, match=says):
        TorchAgent(model, x, y, "a")


@pytest.mark.parametrize(("task", "columns"), [("multilabel", 2), ("regression", 1), ("regression", 4)])
def test_a_model_with_more_or_fewer_outputs_than_values_is_refused(task, columns):
    """Too few would be an error of torch, or a silent repetition of values."""
    with pytest.raises(ConsilienceError, match=rf"agent 'a': the labels need {columns} outputs but the model has 3"):
        TorchAgent(nn.Linear(6, 3), np.zeros((4, 6), np.float32), np.zeros((4, columns)), "a", task=task)


def test_more_classes_than_the_labels_show_are_fine():
    agent = TorchAgent(nn.Linear(6, 3), np.zeros((4, 6), np.float32), np.zeros(4, int), "a")
    assert agent.outputs == 3


@pytest.mark.parametrize(("own", "star", "batch"), [(1, 1, 64), (1, 5, 64), (3, 1, 2), (5, 3, 1)])
def test_batch_norm_bears_a_lone_sample(own, star, batch):
    """It then uses its running statistics; where an image has several values in a channel it stays as it is."""
    flat = nn.Sequential(nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))
    image = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, CLASSES))
    x, y = blobs(own, seed=1)
    pictures = np.random.default_rng(0).normal(0, 1, (own, 1, 4, 4)).astype(np.float32)
    for model, private in ((flat, x), (image, pictures)):
        agent = TorchAgent(model, private, y, "a", training=Training(batch=batch, shared_batch=2))
        shared = np.concatenate([private] * 5)[:star]
        losses = agent.train(shared, soft_labels(star), 0.5)
        assert np.isfinite([losses.local, losses.disagreement]).all()
        assert all(layer.training for layer in model.modules())
        assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert image[1].num_batches_tracked > 0, "a channel of a lone image has several values"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine")
def test_a_gpu_gives_probabilities_too(shared):
    x, y = blobs(50, seed=1)
    agent = TorchAgent(network(), x, y, "a", device="cuda")
    agent.train(shared, soft_labels(len(shared)), 0.5)
    np.testing.assert_allclose(agent.predict(shared).sum(axis=1), 1, atol=1e-5)


class Half(nn.Module):
    """A model in half precision that takes single precision, as language models do that take numbers of words."""

    def __init__(self, precision: torch.dtype, outputs: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, outputs)).to(precision)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.to(self.layers[0].weight.dtype))


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_models_in_half_precision_predict_and_learn_in_single_precision(shared, precision):
    """Softmax in bfloat16 gives rows that sum to anything from 0.99 to 1.01, which nobody may publish."""
    x, y = blobs(60, seed=1)
    agents = [TorchAgent(Half(precision), x, y, "a", training=Training(epochs=5, lr=0.01)) for _ in range(2)]
    whole, resumed = agents
    first = whole.train(shared, soft_labels(len(shared)), 0.1)
    for _ in range(2):
        last = whole.train(shared, soft_labels(len(shared)), 0.1)
    assert last.local < first.local
    f = whole.predict(shared)
    assert f.dtype == np.float32
    np.testing.assert_allclose(f.sum(axis=1), 1, atol=1e-5)
    assert not whole.task.problem(f)[0].any()
    expected = whole.model(torch.from_numpy(shared)).float().softmax(dim=1).detach().numpy()
    np.testing.assert_array_equal(f, expected)
    assert (whole.predict(x).argmax(axis=1) == y).mean() > 0.8

    resumed.restore(whole.state(), shared)
    for agent in agents:
        agent.train(shared, soft_labels(len(shared)), 0.1)
    np.testing.assert_array_equal(resumed.predict(shared), whole.predict(shared))


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_a_plain_layer_in_half_precision_is_refused_with_advice_that_helps(shared, precision):
    x, y = blobs(60, seed=1)
    layer = nn.Linear(FEATURES, CLASSES).to(precision)
    with pytest.raises(ConsilienceError, match=rf"weights are {str(precision)[6:]}, and .* give model\.float\(\), or"):
        TorchAgent(layer, x, y, "a")
    f = TorchAgent(layer.float(), x, y, "a").predict(shared)
    np.testing.assert_allclose(f.sum(axis=1), 1, atol=1e-5)


def test_labels_of_models_in_half_precision_are_told_in_single_precision(shared):
    x, y = blobs(60, seed=1)
    agent = TorchAgent(
        Half(torch.bfloat16), x, np.eye(CLASSES)[y], "a", task="multilabel", training=Training(epochs=5, lr=0.01)
    )
    agent.train_alone()
    expected = agent.model(torch.from_numpy(shared)).float().sigmoid().detach().numpy()
    np.testing.assert_array_equal(agent.predict(shared), expected)
