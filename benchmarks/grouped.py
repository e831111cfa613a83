"""Small convolutional networks: one by one, as they train, and several as one with grouped convolutions."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.timing import ms, over, ranged, table, turns
from consilience.agents import networks

MODELS = 8
CASES = {"cnn, 1x8x8": ("cnn", (1, 8, 8), 320), "cnn, 3x32x32": ("cnn", (3, 32, 32), 64)}
CASES |= {"convnet, 3x32x32": ("convnet", (3, 32, 32), 64)}


def run() -> str:
    """The section on grouped convolutions."""
    torch.set_num_threads(1)
    rows = []
    for title, (kind, shape, samples) in CASES.items():
        alone, *grouped = turns(dict(enumerate(_ways(kind, shape, samples))), 3).values()
        rows.append([f"{title}, {samples} images", ms(alone), *(ranged(over(alone, own)) for own in grouped)])
    heads = ["network", "one by one", "grouped, channels first", "grouped, channels last"]
    return (
        f"### Convolutions in batches\n\nOne step, forward and back, of {MODELS} networks one by one, as agents with "
        "convolutional networks train, and how many times as fast it is as one network with grouped convolutions; CPU "
        "time of one thread.\n\n" + table(heads, rows)
    )


def _ways(kind: str, shape: tuple[int, ...], samples: int) -> list[Callable[[], None]]:
    torch.manual_seed(0)
    order = torch.channels_last if shape[0] > 1 else torch.contiguous_format
    models = [getattr(networks, kind)(shape, 10) for _ in range(MODELS)]
    xs = [torch.randn(samples, *shape).contiguous(memory_format=order) for _ in models]
    ys = [torch.randint(0, 10, (samples,)) for _ in models]
    stacked = [
        torch.stack([one.detach() for one in same]).requires_grad_()
        for same in zip(*(model.parameters() for model in models), strict=True)
    ]
    layers, y = [layer for layer in models[0] if not isinstance(layer, nn.Flatten)], torch.stack(ys)

    def one_by_one() -> None:
        for model, x, own in zip(models, xs, ys, strict=True):
            model.zero_grad()
            functional.cross_entropy(model(x), own).backward()

    def grouped(x: Tensor) -> Callable[[], None]:
        return lambda: functional.cross_entropy(_outputs(layers, stacked, x).flatten(0, 1), y.flatten()).backward()

    whole = torch.cat(xs, dim=1)
    ways = [whole.contiguous(memory_format=one) for one in (torch.contiguous_format, torch.channels_last)]
    return [one_by_one, grouped(ways[0]), grouped(ways[1])]


def _outputs(layers: list[nn.Module], stacked: list[Tensor], x: Tensor) -> Tensor:
    """(models, samples, classes), from images whose channels are those of all models."""
    weights = iter(stacked)
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            kernel, bias = next(weights).flatten(0, 1), next(weights).flatten()
            x = functional.conv2d(x, kernel, bias, layer.stride, layer.padding, groups=MODELS)
        elif isinstance(layer, nn.BatchNorm2d):
            x = functional.batch_norm(x, None, None, next(weights).flatten(), next(weights).flatten(), training=True)
        elif isinstance(layer, nn.Linear):
            x = x.reshape(len(x), MODELS, -1).transpose(0, 1)
            matrix, bias = next(weights), next(weights)
            x = torch.baddbmm(bias.unsqueeze(1), x, matrix.mT)
        else:
            x = layer(x)
    return x
