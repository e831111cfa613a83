"""Newton-type solver for models whose last linear layer alone is trained. It needs no learning rate.

With fixed features phi(x), of which one is 1, logits z = W phi, n private and n* shared samples, the local objective
(label `step-local-update`) is

    1/n sum CE(z(x), y) + lam / (2 n*) sum |z(x*) - t(x*)|^2 + decay/2 m |W|^2

with t(x*) = log psi(x*) less its mean over classes, and m the mean of |phi|^2. Its last two terms are quadratic, and
the Hessian of the cross-entropy is at most half the identity over classes (Böhning, 1992). So

    W <- W - H^-1 gradient,   H = G + 1/(2n) X'X,   G = lam/n* S'S + decay m I

never raises the objective; X and S are private and shared features. G is the same for all agents that read the shared
data alike. With fewer private samples than features, H^-1 = G^-1 - G^-1 X' (2n I + X G^-1 X')^-1 X G^-1 needs a matrix
of the size of the private data only; otherwise H itself is factored.

Where Adam trains all layers (`solver="both"`), the same steps end a round, with phi as the layers before the last now
make them, and decay/2 m |W - W0|^2 in place of the last term, W0 being the layer as Adam left it.
"""

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from consilience.agents.input_cache import read_once
from consilience.agents.protocol import Correction
from consilience.agents.tensors import Inputs, called, in_batches, on, picked
from consilience.agents.training import Training
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows
from consilience.core.duals import LEAST
from consilience.privacy.options import Privacy
from consilience.tasks.protocol import Task

STEPS_AFTER, PULL = 3, 1e-3
"""Steps of the last layer after those of all layers, and their decay towards the layer as it was before them."""
TRIED = 16
"""Rows on which it is seen whether a model ends with its last linear layer; ReLU often leaves two as they are."""


def exact_solver(
    who: str,
    training: Training,
    model: nn.Module,
    x: Inputs,
    task: Task,
    augmented: bool,
    privacy: Privacy | None,
    on_backbone: bool,
) -> "Exact | None":
    """The exact solver, if `training` asks for it, or with auto if it fits a head `on_backbone`; otherwise an error."""
    if training.solver == "steps" or (training.solver == "auto" and not on_backbone):
        return None
    both = training.solver == "both"
    refused = {
        f"a model for {task.name}": not task.has_classes,
        "images that are changed in training": augmented and not both,
        "a private agent": privacy is not None and privacy.on,
    }
    for reason, given in refused.items():
        if given and training.solver == "auto":
            return None
        if given:
            raise ConsilienceError(
                f"{who}: the solver {training.solver!r} cannot be used for {reason}. Use solver='steps'."
            )
    if both:
        learned_layer(who, model, picked(x, slice(0, TRIED)), alone=False)
    if both or (training.solver == "auto" and not _is_one_layer(model)):
        return None
    return Exact(who, model, x, training.decay)


def _is_one_layer(model: nn.Module) -> bool:
    """Whether the model is one linear layer, after flattening at most."""
    layers = list(model) if isinstance(model, nn.Sequential) else [model]
    return isinstance(layers[-1], nn.Linear) and all(isinstance(layer, nn.Flatten) for layer in layers[:-1])


def learned_layer(who: str, model: nn.Module, sample: Inputs, alone: bool = True) -> tuple[str, nn.Linear]:
    """The last layer and its name, if it is linear and, with `alone`, nothing else is trained; otherwise an error."""
    linear = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    if linear:
        name, layer = linear[-1]
        own = {f"{name}.{parameter}".removeprefix(".") for parameter, _ in layer.named_parameters()}
        if trained == own or (not alone and own <= trained):
            phi, out = _features(model, layer, sample)
            if torch.allclose(layer(phi), out, rtol=1e-4, atol=1e-5):
                return name, layer
    if not alone:
        raise ConsilienceError(
            f"{who}: the solver 'both' is for models that end with one linear layer, which this one does not. Use "
            "solver='steps'."
        )
    raise ConsilienceError(
        f"{who}: the solver 'exact' is for models that end with one linear layer and learn nothing else; this one "
        f"trains {', '.join(sorted(trained)[:4]) or 'nothing'}{' and more' if len(trained) > 4 else ''}. Freeze the "
        "other layers (requires_grad_(False)), or use solver='steps'."
    )


def _features(model: nn.Module, layer: nn.Linear, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """What the last layer is given, and what the model returns; in evaluation mode."""
    inputs_of_layer: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, given: inputs_of_layer.append(given[0]))
    try:
        with torch.no_grad():
            out = called(model.eval(), inputs)
    finally:
        handle.remove()
    return inputs_of_layer[-1], out


@dataclass(frozen=True)
class Metric:
    """G = lam/n* S'S + ridge I, with whatever is smaller factored: G itself, or S S' + n*/lam ridge I."""

    features: Tensor
    """S (n*, features)."""
    lam: float
    ridge: float
    factor: Tensor

    def matrix(self) -> Tensor:
        """G itself, (features, features)."""
        return _plus(self.features.T @ self.features * (self.lam / max(len(self.features), 1)), self.ridge)

    def inverse(self, v: Tensor) -> Tensor:
        """G^-1 v, (features, columns)."""
        s = self.features
        if len(s) >= len(v):
            return torch.cholesky_solve(v, self.factor)
        return (v - s.T @ torch.cholesky_solve(s @ v, self.factor)) / self.ridge if len(s) else v / self.ridge


def metric(s: Tensor, lam: float, ridge: float) -> Metric:
    """G of shared features; with no rows it is ridge I."""
    rows, width = s.shape
    few = rows < width
    smaller = _plus(s @ s.T, ridge * rows / max(lam, 1e-300)) if few else _plus(s.T @ s * (lam / rows), ridge)
    return Metric(s, lam, ridge, torch.linalg.cholesky(smaller))


def _plus(gram: Tensor, ridge: float) -> Tensor:
    gram.diagonal().add_(ridge)
    return gram


@final
class Exact:
    """The solver of one agent's last layer. It begins at zero: where it ends does not depend on where it begins.

    With `alone` false other layers were trained before, and it stays near the layer as it is.
    """

    def __init__(self, who: str, model: nn.Module, x: Inputs, decay: float, alone: bool = True) -> None:
        self._model, self._decay = model, decay
        self.name, self.layer = learned_layer(who, model, picked(x, slice(0, TRIED)), alone)
        with torch.no_grad():
            for weight in self.layer.parameters() if alone else ():
                weight.zero_()
        self._own, self._centre = self._read(x), self._weights
        self._shared: tuple[Any, float, Metric, Tensor] | None = None
        others = [
            layer for layer in model.modules() if layer is not self.layer and not isinstance(layer, nn.Sequential)
        ]
        known = all(isinstance(layer, nn.Flatten) or getattr(layer, "fixed", False) for layer in others)
        self._features_are = tuple(type(layer).__qualname__ for layer in others) if known else id(model)
        """Equal for agents that compute the same features from the same inputs."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Exact":
        """A copy of an agent has a model of its own; features, which do not change, are not copied."""
        copied = object.__new__(Exact)
        memo[id(self)] = copied
        vars(copied).update(vars(self) | {"_model": deepcopy(self._model, memo), "layer": deepcopy(self.layer, memo)})
        return copied

    def _read(self, inputs: Inputs) -> Tensor:
        """Features of all rows, one of them 1 where the layer has a bias, in double precision."""
        device = self.layer.weight.device
        parts = [_features(self._model, self.layer, on(batch, device))[0] for batch in in_batches(inputs)]
        phi = torch.cat(parts).double()
        return phi if self.layer.bias is None else torch.cat([phi, torch.ones_like(phi[:, :1])], dim=1)

    @property
    def _weights(self) -> Tensor:
        """W' (features, outputs)."""
        bias = [] if self.layer.bias is None else [self.layer.bias.detach()[:, None]]
        return torch.cat([self.layer.weight.detach(), *bias], dim=1).T.double()

    def _put(self, w: Tensor) -> None:
        with torch.no_grad():
            self.layer.weight.copy_(w.T[:, : self.layer.in_features])
            if self.layer.bias is not None:
                self.layer.bias.copy_(w[-1])

    def prepared(self, rows: Rows, inputs: Inputs | None, lam: float, way: Hashable) -> tuple[Metric, Tensor]:
        """G of the shared data, which all agents of a process that read it in this `way` share, and the factor of
        2n I + X G^-1 X', or that of H, whichever is smaller. Without `inputs` no shared data are used."""
        key = rows if inputs is not None else None
        if self._shared is None or self._shared[0] is not key or self._shared[1] != lam:
            x = self._own
            if inputs is None:
                g = self._made(x[:0], lam, x)
            else:
                way = (way, self._features_are, "metric", lam, self._decay)
                g = read_once(rows, way, lambda: self._of(inputs, lam))
            self._shared = (key, lam, *self._factored(g))
        return self._shared[2], self._shared[3]

    def prepared_now(self, inputs: Inputs | None, lam: float) -> tuple[Metric, Tensor]:
        """The same for features that are other ones in the next round."""
        return self._factored(self._made(self._own[:0], lam, self._own) if inputs is None else self._of(inputs, lam))

    def _factored(self, g: Metric) -> tuple[Metric, Tensor]:
        x, twice = self._own, 2.0 * len(self._own)
        few = len(x) < x.shape[1]
        inner = _plus(x @ g.inverse(x.T.contiguous()), twice) if few else g.matrix() + x.T @ x / twice
        return g, torch.linalg.cholesky(inner)

    def _of(self, inputs: Inputs, lam: float) -> Metric:
        s = self._read(inputs)
        return self._made(s, lam, s)

    def _made(self, s: Tensor, lam: float, usual: Tensor) -> Metric:
        length = float(usual[:, : self.layer.in_features].square().sum(dim=1).mean())
        return metric(s, lam, max(self._decay * length, 1e-12))

    def step(
        self,
        task: Task,
        y: Tensor,
        known: tuple[Metric, Tensor],
        labels: Tensor | None,
        offsets: Tensor | None = None,
        correct: Correction | None = None,
    ) -> tuple[float, float]:
        """One step; the loss on private labels and that on pseudo-labels before it.

        `offsets` are added to the logits of private samples; `correct` may change the gradient.
        """
        (g, factor), x, w = known, self._own, self._weights
        out = (x @ w).requires_grad_()
        local = task.loss(out if offsets is None else out + offsets.double(), y)
        (by_out,) = torch.autograd.grad(local, out)
        gradient = x.T @ by_out + g.ridge * (w - self._centre)
        disagreement = float("nan")
        if labels is not None:
            z, logs = g.features @ w, labels.double().clamp(min=LEAST).log()
            disagreement = float(task.loss(z, labels.double()))
            gradient += g.features.T @ (z - (logs - logs.mean(dim=1, keepdim=True))) * (g.lam / len(z))
        if correct is not None:
            gradient = self._corrected(gradient, correct)
        if len(x) < len(w):
            inner = torch.cholesky_solve(x @ g.inverse(gradient), factor)
            self._put(w - g.inverse(gradient - x.T @ inner))
        else:
            self._put(w - torch.cholesky_solve(gradient, factor))
        return float(local.detach()), disagreement

    def _corrected(self, gradient: Tensor, correct: Correction) -> Tensor:
        gradients = {"weight": gradient.T[:, : self.layer.in_features]}
        if self.layer.bias is not None:
            gradients["bias"] = gradient[-1]
        for key, value in gradients.items():
            name = f"{self.name}.{key}".removeprefix(".")
            gradients[key] = correct(name, value.float(), getattr(self.layer, key).detach()).double()
        rows = [gradients["weight"]] + ([gradients["bias"][:, None]] if "bias" in gradients else [])
        return torch.cat(rows, dim=1).T
