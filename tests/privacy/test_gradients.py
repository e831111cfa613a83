"""One private step: clipped gradients of single rows, noise of the stated scale, shared rows without either."""

import numpy as np
import pytest
import torch
from torch import nn

from consilience import ConsilienceError, TorchAgent
from consilience.agents.networks import cnn, convnet, convnet_gn, resnet20_gn, with_group_norm
from consilience.agents.training import Training
from consilience.privacy.gradients import PerSample, clipped_sum
from consilience.privacy.mechanism import Repeatable, Secure
from consilience.privacy.options import Privacy
from tests.torch_options import torch_options


class Silent:
    """Draws without noise, and every row."""

    def normal(self, count):
        return np.zeros(count, np.float32)

    def chosen(self, rows, rate):
        return np.arange(rows)


def one_by_one(model, x, y, clip):
    """sum_i g_i min(1, C / |g_i|), row by row with plain autograd."""
    sums = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    for row, label in zip(x, y, strict=True):
        model.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(row[None]), label[None]).backward()
        gradients = [p.grad.double() for p in model.parameters()]
        length = np.sqrt(sum(float((g * g).sum()) for g in gradients))
        for total, g in zip(sums, gradients, strict=True):
            total += g * min(1.0, clip / length)
    model.zero_grad(set_to_none=True)
    return sums


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), (6,)),
    "cnn": (lambda: cnn((1, 8, 8), 3, width=4), (1, 8, 8)),
    "convnet-gn": (lambda: with_group_norm(convnet((3, 16, 16), 3, width=8)), (3, 16, 16)),
    "resnet20-gn": (lambda: resnet20_gn((3, 8, 8), 3), (3, 8, 8)),
}


@pytest.mark.parametrize("clip", [0.5, 1000.0])
@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_before_noise_is_that_of_a_loop_over_rows(name, clip):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    x, y = torch.randn(5, *shape), torch.tensor([0, 1, 2, 1, 0])
    expected = one_by_one(model, x, y, clip)
    hooks = PerSample("a", model)
    with hooks.on():
        hooks.gradient(lambda: nn.functional.cross_entropy(model(x), y), clip, 0.0, 4.0, Silent())
    for parameter, total in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad.double(), total / 4.0, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 4, stride=2, padding=1),
        nn.Conv2d(3, 4, 3, padding="same", bias=False),
        nn.Conv2d(4, 6, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1), groups=2),
        nn.Conv2d(3, 3, 3, padding=1, groups=3, padding_mode="reflect"),
    ],
    ids=["strided", "same", "groups", "reflect"],
)
def test_convolutions_have_right_gradients_however_images_are_in_memory(layer, order):
    """Agents hold colour images with the channels last, where opacus' own function is wrong."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(5, layer.in_channels, 9, 8, generator=draw).contiguous(memory_format=order)
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(layer(x[:1]).numel(), 3))
    y = torch.tensor([0, 1, 2, 1, 0])
    expected = one_by_one(model, x, y, 0.5)
    hooks = PerSample("a", model)
    with hooks.on():
        hooks.gradient(lambda: nn.functional.cross_entropy(model(x), y), 0.5, 0.0, 4.0, Silent())
    for parameter, total in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad.double(), total / 4.0, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("clip", [0.5, 1000.0])
def test_a_private_agent_has_the_gradient_of_a_loop_over_its_colour_images(clip):
    """As the agent holds them: the whole way from its rows to the step."""
    torch.manual_seed(0)
    model = with_group_norm(convnet((3, 16, 16), 3, width=8))
    x, y = np.random.default_rng(0).normal(size=(6, 3, 16, 16)).astype(np.float32), np.array([0, 1, 2, 1, 0, 2])
    one = TorchAgent(
        model, x, y, "a", privacy=Privacy(epsilon=4, clip=clip, noise=1.0), training=Training(batched=False)
    )
    expected = one_by_one(model, torch.from_numpy(x), torch.from_numpy(y), clip)
    with one._per_sample.on():
        one._own_pass(torch.arange(6), Silent())
    for parameter, total in zip(model.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad.double(), total / 6.0, rtol=1e-6, atol=1e-6)


def test_clipping_is_over_all_parameters_together():
    long, short = torch.tensor([[3.0, 0.0], [0.3, 0.0]]), torch.tensor([[4.0], [0.4]])
    first, second = clipped_sum([long, short], 1.0)
    assert first.tolist() == pytest.approx([0.6 + 0.3, 0.0]) and second.tolist() == pytest.approx([0.8 + 0.4])


@pytest.mark.parametrize("draws", [Repeatable(1, "a", 1, 0), Secure()], ids=["seed", "secure"])
def test_the_noise_has_the_stated_scale(draws):
    model = nn.Linear(200, 200, bias=False)
    hooks = PerSample("a", model)
    found = []
    for _ in range(5):
        with hooks.on():
            hooks.gradient(None, 0.5, 3.0, 10.0, draws)
        found.append(model.weight.grad.flatten().numpy().copy())
    noise = np.concatenate(found).astype(np.float64)  # 200,000 numbers
    expected = 3.0 * 0.5 / 10.0
    assert noise.std() == pytest.approx(expected, rel=0.01) and abs(noise.mean()) < expected * 0.01
    below = [(noise < expected * z).mean() for z in (-2, -1, 0, 1, 2)]
    assert below == pytest.approx([0.02275, 0.15866, 0.5, 0.84134, 0.97725], abs=0.004)
    assert abs(np.corrcoef(found[0], found[1])[0, 1]) < 0.02


@pytest.mark.parametrize("draws", [Repeatable(1, "a", 1, 0), Secure()], ids=["seed", "secure"])
def test_a_sample_takes_each_row_on_its_own(draws):
    counts = [len(draws.chosen(200, 0.25)) for _ in range(400)]
    assert np.mean(counts) == pytest.approx(50, abs=1) and np.var(counts) == pytest.approx(37.5, rel=0.3)


def private(rows, **more):
    x, y, _, _ = rows
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    privacy = Privacy(epsilon=4, delta=1e-3, clip=0.1, noise=2.0)
    return TorchAgent(model, x, y, "a", **torch_options(epochs=1, batch=24, shared_batch=40, **more), privacy=privacy)


def test_a_step_adds_the_plain_gradient_of_shared_rows_to_the_private_one(rows, monkeypatch):
    """The trap: one backward pass over both with hooks on would clip shared rows and count them as private."""
    x, y, shared, labels = rows
    agent = private(rows, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0))
    monkeypatch.setattr(agent.mechanism, "_drawn", lambda number: Silent())
    before = [p.detach().clone() for p in agent.model.parameters()]
    own = one_by_one(agent.model, torch.tensor(x), torch.tensor(y), 0.1)
    loss = nn.functional.cross_entropy(agent.model(torch.tensor(shared)), torch.tensor(labels))
    plain = torch.autograd.grad(loss, list(agent.model.parameters()))
    agent.train(shared, labels, 0.7)
    assert sum(float(g.square().sum()) for g in plain) > 0.1**2, "clipping would not show"
    for parameter, old, mine, theirs in zip(agent.model.parameters(), before, own, plain, strict=True):
        assert torch.allclose(old - parameter, (mine / 24 + 0.7 * theirs).float(), atol=1e-6)
    assert agent.mechanism.entries[-1].steps == 1 and not hasattr(agent.model[0].weight, "grad_sample")


def test_hooks_that_saw_shared_rows_would_be_noticed(rows, monkeypatch):
    """With hooks on in both passes shared rows would have clipped gradients of their own: opacus then holds a list."""
    _, _, shared, labels = rows
    agent = private(rows)
    on = agent._per_sample.on

    def never_off():
        context = on()
        context.__enter__()
        agent._per_sample._hooks.disable_hooks = lambda: None
        agent._per_sample._hooks.enable_hooks()
        return context

    class Context:
        def __enter__(self):
            self.context = never_off()

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(agent._per_sample, "on", Context)
    with pytest.raises(ConsilienceError, match="a row would count twice"):
        agent.training = Training(epochs=2, batch=24, shared_batch=40)
        agent.train(shared, labels, 0.5)


@pytest.mark.parametrize("model", [convnet((3, 16, 16), 3), nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))])
def test_batch_norm_is_refused_and_group_norm_named(model):
    with pytest.raises(ConsilienceError, match=r"BatchNorm.d, which mixes the rows.*GroupNorm.*convnet-gn"):
        PerSample("a", model)


def test_statistics_of_rows_and_what_opacus_cannot_do_are_refused():
    norm = nn.InstanceNorm1d(4, affine=True, track_running_stats=True)
    with pytest.raises(ConsilienceError, match="keeps statistics of private rows"):
        PerSample("a", nn.Sequential(norm))
    with pytest.raises(ConsilienceError, match=r"agent 'a': this model cannot be trained privately: .*LSTM"):
        PerSample("a", nn.LSTM(4, 4))


def test_group_norm_networks_have_no_batch_norm_and_predict():
    for make in (convnet_gn, resnet20_gn):
        network = make((3, 16, 16), 4)
        kinds = {type(layer) for layer in network.modules()}
        assert nn.GroupNorm in kinds and nn.BatchNorm2d not in kinds
        assert network(torch.zeros(2, 3, 16, 16)).shape == (2, 4)
