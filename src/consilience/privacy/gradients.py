"""The private gradient of one step: per-sample gradients by opacus, clipped, summed, with noise."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from consilience.base.errors import ConsilienceError
from consilience.privacy.mechanism import Draws


def clipped_sum(gradients: Sequence[Tensor], clip: float) -> list[Tensor]:
    """sum_i g_i min(1, C / |g_i|), where |g_i| is the length of row i's gradient over all parameters together.

    `gradients` have a parameter each, (rows, ...). (Abadi et al., 2016, Algorithm 1.)
    """
    squares = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients]).sum(dim=0)
    factors = (clip / squares.sqrt().clamp(min=1e-12)).clamp(max=1.0)
    return [torch.einsum("i,i...->...", factors, g) for g in gradients]


def conv2d_gradients(layer: nn.Conv2d, activations: Sequence[Tensor], backprops: Tensor) -> dict[Tensor, Tensor]:
    """g_i[o, c, k, l] = sum_(h, w) b_i[o, h, w] x_i[c, s h + d k, s w + d l], with x_i padded, within each group.

    With s the stride, d the dilation and b_i the gradient at the output for row i. Opacus' own function takes images in
    memory as if their channels came first; where they come last, as colour images do here, its result is wrong.
    """
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    padded = functional.pad(activations[0].to(backprops.dtype), layer._reversed_padding_repeated_twice, mode=mode)
    x = padded.permute(0, 2, 3, 1).contiguous()
    (rows, _, breadth, channels), groups = x.shape, layer.groups
    (down, right), (low, far), (high, wide) = layer.stride, layer.dilation, layer.kernel_size
    height, width = backprops.shape[2:]
    line = breadth * channels
    steps = (x.stride(0), down * line, right * channels, low * line, far * channels, 1)
    patches = x.as_strided((rows, height, width, high, wide, channels), steps)
    patches = patches.reshape(rows, height * width, high * wide, groups, channels // groups)
    at_output = backprops.permute(0, 2, 3, 1).reshape(rows, height * width, groups, -1)
    weight_gradients = torch.einsum("nqgo,nqkgc->ngokc", at_output, patches).transpose(3, 4)
    gradients: dict[Tensor, Tensor] = {layer.weight: weight_gradients.reshape(rows, *layer.weight.shape)}
    if layer.bias is not None:
        gradients[layer.bias] = backprops.sum(dim=(2, 3))
    return gradients


@final
class PerSample:
    """Opacus' hooks on a model. They are there while it trains (`on`), and see the private rows alone.

    Private rows go through the model while the hooks are enabled, shared rows while they are not: what the hooks see
    counts as private rows, each with its own clipped gradient.
    """

    def __init__(self, name: str, model: nn.Module) -> None:
        _check(name, model)
        self._name, self._model = name, model
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._hooks: Any = None
        with self.on():  # refuses what opacus cannot do before the first round
            pass

    @contextmanager
    def on(self) -> Iterator[None]:
        """A round of training. Afterwards the model is a plain one again."""
        self._hooks = _hooks(self._name, self._model)
        self._hooks.disable_hooks()
        try:
            yield
        finally:
            self._hooks.cleanup()
            self._hooks = None

    def gradient(
        self,
        loss: Callable[[], Tensor] | None,
        clip: float,
        noise: float,
        expected: float,
        draws: Draws,
    ) -> Tensor:
        """Puts (sum_i g_i min(1, C / |g_i|) + N(0, (noise C)^2)) / expected into the parameters' `.grad`.

        Only while `on`. `loss` is the mean loss of the sampled rows, to be called once; None where no row was sampled,
        and nothing but the noise is left. `expected` is the expected number of sampled rows. Returns the loss.
        """
        mean_loss = torch.zeros(())
        sums = [torch.zeros_like(p) for p in self._parameters]
        if loss is not None:
            with self._watching():
                mean_loss = loss()
                mean_loss.backward()  # type: ignore[no-untyped-call]
            sums = clipped_sum([self._taken(p) for p in self._parameters], clip)
        for parameter, total in zip(self._parameters, sums, strict=True):
            drawn = torch.from_numpy(draws.normal(parameter.numel())).view(parameter.shape).to(parameter)
            parameter.grad = total.view_as(parameter).add_(drawn, alpha=noise * clip).div_(expected)
        return mean_loss.detach()

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._hooks.enable_hooks()
        try:
            yield
        finally:
            self._hooks.disable_hooks()

    @staticmethod
    def _taken(parameter: nn.Parameter) -> Tensor:
        """The per-sample gradients of a parameter, zero where the loss does not depend on it."""
        per_sample: Any = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = None  # type: ignore[attr-defined]
        if isinstance(per_sample, list):
            raise ConsilienceError(
                "the model went over its private rows more than once in a step, so that a row would count twice. "
                "Use a model that takes every sample once."
            )
        if per_sample is None:
            return torch.zeros((1, *parameter.shape), dtype=parameter.dtype, device=parameter.device)
        taken: Tensor = per_sample
        return taken


def _check(name: str, model: nn.Module) -> None:
    """Refuses a model in which a row's gradient depends on other rows, or that keeps statistics of them."""
    who = f"agent {name!r}" if name else "this agent"
    for layer_name, layer in model.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            raise ConsilienceError(
                f"{who}: {layer_name or 'the model'} is {type(layer).__name__}, which mixes the rows of a batch and "
                "keeps their mean, so that no row's part can be bounded. Use GroupNorm instead; the built-in models "
                "convnet-gn, resnet20-gn and efficientnet-gn have it."
            )
        if getattr(layer, "track_running_stats", False):
            raise ConsilienceError(
                f"{who}: {layer_name} keeps statistics of private rows. Make it with track_running_stats=False, or use "
                "GroupNorm."
            )
        if getattr(layer, "inplace", False):
            layer.inplace = False  # hooks need what goes in; the numbers are the same


def _hooks(name: str, model: nn.Module) -> Any:
    try:
        from opacus.grad_sample.grad_sample_module import GradSampleHooks
        from opacus.validators import ModuleValidator
    except ImportError as error:
        raise ConsilienceError("privacy needs more packages: pip install 'consilience[privacy]'.") from error
    warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)  # inputs need no gradient
    model.train()
    problems = ModuleValidator.validate(model, strict=False)
    if not problems:
        try:
            hooks = GradSampleHooks(model, loss_reduction="mean", strict=True)
            hooks.GRAD_SAMPLERS = {**hooks.GRAD_SAMPLERS, nn.Conv2d: conv2d_gradients}
            return hooks
        except (NotImplementedError, ValueError) as error:
            problems = [error]
    reason = " ".join(str(problems[0]).split())
    raise ConsilienceError(f"agent {name!r}: this model cannot be trained privately: {reason}")
