"""An agent whose model is any `torch.nn.Module`. The local objective (label `step-local-update`) is here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from consilience.agents.classes import renumbered
from consilience.agents.input_cache import Transform
from consilience.agents.kept_back import keep_back
from consilience.agents.network_io import LogitsCheck, NetworkInputs, first_output
from consilience.agents.network_rounds import NetworkRounds
from consilience.agents.newton import PULL, STEPS_AFTER, Exact, exact_solver
from consilience.agents.noise import folds, noise_of
from consilience.agents.optimizers import Adam, MakeOptimizer
from consilience.agents.protocol import Correction, Losses, agent_repr
from consilience.agents.tensors import (
    Inputs,
    augmentation,
    called,
    fixed_part,
    for_network,
    in_batches,
    lone_sample,
    on,
    picked,
    placed,
    single_precision,
)
from consilience.agents.training import Training, number_of_batches
from consilience.agents.unreadable import explained
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count
from consilience.core.class_prior import class_offsets
from consilience.privacy.mechanism import Draws, Mechanism
from consilience.privacy.options import Privacy
from consilience.tasks import task_named
from consilience.tasks.protocol import Array, Task, labelled, require_classes

Augment = Callable[[Any], Any]
"""Maps a batch of model inputs to another. It may draw from torch's generator, which is seeded for the agent."""


@final
class TorchAgent(NetworkRounds):
    """Trains `model` on private (x, y) and on pseudo-labels; predicts in evaluation mode.

    Small plain networks of one architecture train as one computation.

    Args:
        model: Returns logits (samples, classes), or values (samples, outputs) for regression. Models of Hugging Face
            are taken as they are.
        x: The private rows, of any kind (`base/rows.py`).
        y: Their labels, numbers or words, or the name of a column of `x`.
        name: Unique among the agents; by default its number.
        task: What is learned: classification, regression, multilabel, or a task of your own.
        classes: Names of the classes, in order, where labels are words.
        kind: How tables call the model; by default its class.
        transform: Converts raw rows to model inputs: an array, a tensor, or several by name. Called once for every set
            of rows.
        augment: Changes every batch of inputs in training; overrides `training.augment`.
        training: Epochs, batches, learning rate and other options of training.
        optimizer: Makes an optimizer from the parameters; by default Adam. Its state lives on across rounds.
        seed: Of the agent's random numbers.
        device: Where the model is: cpu, cuda, cuda:1 or mps.
        privacy: Differential privacy of each private row for all that leaves the agent (docs/explanation/privacy.md).

    >>> x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1])
    >>> agent = TorchAgent(nn.Linear(4, 2), x, y, name="a")
    >>> _ = agent.train(x, None, lam=0.0)
    >>> agent.predict(x).shape
    (4, 2)
    """

    untouched = ("x", "y", "_rows", "_kept", "transform", "augment")
    """Attributes that copies of the agent share, such as its data."""

    def __init__(
        self,
        model: nn.Module,
        x: Rows,
        y: Any = None,
        name: str = "",
        *,
        task: str | Task = "classification",
        classes: Sequence[str] = (),
        kind: str = "",
        transform: Transform | None = None,
        augment: Augment | None = None,
        training: Training | None = None,
        optimizer: MakeOptimizer | None = None,
        seed: int = 0,
        device: str = "cpu",
        privacy: Privacy | None = None,
    ) -> None:
        self.training = training = training or Training()
        self.name, self.seed = name, seed
        self.transform, self.augment = transform, augment or augmentation(training.augment)
        self.task = task_named(task)
        data = labelled(name, self.task, x, y, classes)
        data, self._kept = keep_back(data, self.task, training.kept_back, seed, name)
        self.class_names, self._rows = data.class_names, data.x
        self.kind = kind or type(model).__name__
        self.samples = len(data.y)
        self.class_counts = data.counts
        self.model, self.device = placed(self.who, model, device)
        self.architecture: tuple[str, tuple[int, ...], int] | None = None
        """The built-in network that `model` is, with the shape of a sample and the outputs; None for any other."""
        self._noise: float | None = None if self.task.noisy else 1.0
        self._first_model = deepcopy(self.model) if self.task.noisy else None
        self._check_logits = LogitsCheck(lambda: self.who, self.task)
        label = y if isinstance(y, str) else str(getattr(y, "name", None) or "")
        fixed = fixed_part(model) if self.augment is None else None
        self.read = NetworkInputs(lambda: self.who, data.x, label, transform, fixed, self.device)
        self._round = 0
        x = on(self.read(data.x), self.device)
        out, self.read.floats = first_output(self.who, self.model, x)
        self._check_logits(out)
        self.x, self.outputs = x.float() if isinstance(x, Tensor) and self.read.floats else x, int(out.shape[1])
        self.y = self._target(data.y)
        if data.outputs > self.outputs or (data.outputs < self.outputs and not self.task.has_classes):
            raise ConsilienceError(
                f"agent {name!r}: the labels need {data.outputs} outputs but the model has {self.outputs}. "
                f"Give the model one output for each of the {self.task.outputs_are}."
            )
        if len(self._kept[1]) and privacy is not None and privacy.on:
            raise ConsilienceError(
                f"{self.who}: kept_back is on, and what is fitted to private rows that are kept back has no bound on "
                "what it says of them. A private agent keeps none back: leave one of them out."
            )
        if training.class_balanced and privacy is not None and privacy.on:
            raise ConsilienceError(
                f"{self.who}: class_balanced is on, which would tell how many private rows each class has, and the "
                "agent is private. Leave one of them out."
            )
        self._offsets = self._class_offsets() if training.class_balanced else None
        augmented, on_backbone = self.augment is not None, getattr(transform, "is_backbone", False)
        self._exact = exact_solver(self.who, training, self.model, self.x, self.task, augmented, privacy, on_backbone)
        self._make_optimizer = optimizer or (lambda parameters: Adam(parameters, training.lr))
        self.reset_optimizer()
        self.mechanism = self._private(privacy) if privacy is not None and privacy.on else None
        self.parameters: int | None = sum(tensor.numel() for tensor in self._stored().values())
        if self._check_logits.undecided:
            self.predict(data.x)  # one sample alone does not tell

    def __repr__(self) -> str:
        return agent_repr(self)

    @property
    def who(self) -> str:
        """How messages call the agent."""
        return f"agent {self.name!r}" if self.name else "an agent"

    @property
    def solves_exactly(self) -> bool:
        """Whether its one learned layer is solved without a learning rate (`agents/newton.py`)."""
        return self._exact is not None

    @property
    def noise(self) -> float:
        """Scale of the noise in its own labels, out of sample, for trust; 1 where the task has none.

        Measured when it is first asked for, by copies of the untrained model that train for as many rounds as this one
        has trained.
        """
        if self._noise is None:
            self._noise = noise_of(self.y.cpu().numpy(), folds(self.seed, self.name, self.samples), self._held_out)
        return self._noise

    @noise.setter
    def noise(self, noise: float) -> None:
        self._noise = noise

    def _held_out(self, train: Array, test: Array) -> Array:
        """What a copy that trained only on the private rows `train` predicts for the private rows `test`."""
        copy = TorchAgent(
            deepcopy(self._first_model) if self._first_model is not None else self.model,
            picked(self.x, torch.from_numpy(train)),
            self.y.cpu().numpy()[train],
            self.name,
            task=self.task,
            augment=self.augment,
            training=replace(self.training, kept_back=0.0),
            optimizer=self._make_optimizer,
            seed=self.seed,
            device=str(self.device),
        )
        for _ in range(max(1, self._round)):
            copy.train_alone()
        return copy.predict(picked(self.x, torch.from_numpy(test)))

    def rename(self, class_names: tuple[str, ...]) -> None:
        """Sets the names and the order of the classes; the model has an output for each."""
        if len(class_names) != self.outputs:
            raise ConsilienceError(
                f"{self.who}: its model has {self.outputs} outputs, but there are {len(class_names)} classes: "
                f"{', '.join(class_names)}. Give the model one output for each."
            )
        rows, kept = self._kept
        self._kept = rows, renumbered(self.name, kept, self.class_names, class_names, self._round > 0)
        y = renumbered(self.name, self.y.cpu().numpy(), self.class_names, class_names, self._round > 0)
        self.y, self.class_counts, self.class_names = self._target(y), self.task.counts(y), class_names
        self._offsets = self._class_offsets() if self.training.class_balanced else None

    @property
    def rows(self) -> Rows:
        """The private rows; an error for a private agent, as what a method makes of them would not be private."""
        if self.mechanism is not None:
            raise ConsilienceError(
                f"{self.who} is private, and what the method makes of its private rows would not be. Use consensus."
            )
        return self._rows

    @property
    def labels(self) -> Array:
        """The private labels."""
        labels: Array = self.y.cpu().numpy()
        return labels

    def held_out(self, refit: bool = True) -> tuple[Array, Array]:
        """Predictions for the rows kept back (`training.kept_back`), and their labels. Networks are never refitted."""
        rows, y = self._kept
        return (self.predict(rows), y) if len(y) else (np.zeros((0, self.outputs), dtype=np.float32), y)

    def predict(self, x: Rows) -> Array:
        """Class probabilities (samples, classes) or values (samples, outputs), in evaluation mode."""
        model = self.model.eval()
        inputs = self.read(x)
        with torch.inference_mode(), explained(self.who, self.kind, inputs, self.x):
            out = torch.cat([called(model, on(batch, self.device)) for batch in in_batches(inputs)])
            self._check_logits(out)
            out = self.task.predictions(single_precision(out))
        return out.float().cpu().numpy()

    def train(self, shared: Rows, labels: Array | None, lam: float) -> Losses:
        """`epochs` passes over the private data; each step takes a private and a shared batch.

        The loss of a step is L(f(x), y) + lam dist(f(x*), psi), the private pass before the shared one (batch
        norm sees them one after the other). Each pass goes forward and back before the next, so that its memory is
        free again; the gradients add up. Without `labels` the shared pass is skipped; with labels and lam = 0 it
        does nothing but show batch norm the shared data.
        """
        return self._train(shared, labels, lam, None)

    def _solved(
        self, exact: Exact, shared: Rows, labels: Array | None, lam: float, correct: Correction | None
    ) -> Losses:
        """A round of `epochs` steps of the solver, each over all private and, with labels, all shared samples."""
        self._round += 1
        with_shared = labels is not None and lam > 0
        inputs = self.read.shared(shared) if with_shared else None
        known = exact.prepared(shared, inputs, lam if with_shared else 0.0, (id(self.transform), self.read.way()))
        target = self._target(labels) if with_shared and labels is not None else None
        losses = []
        for _ in range(self.training.epochs):
            losses.append(exact.step(self.task, self.y, known, target, self._offsets, correct))
        local, disagreement = np.sum(losses, axis=0)
        passed = self.samples + (count(shared) if with_shared else 0)
        return self.end_round(local, disagreement, self.training.epochs * passed)

    def train_alone(self, correct: Correction | None = None) -> Losses:
        """`epochs` passes over the private data; `correct` may change the gradients before each step."""
        return self._train(None, None, 0.0, correct)

    def train_on_shared(self, shared: Rows, labels: Array, passes: int) -> Losses:
        """Trains on the shared data with `labels` alone, for this number of passes."""
        if self.training.solver == "exact":
            raise ConsilienceError(
                f"{self.who}: the solver 'exact' learns private and shared data together. Use solver='steps', or a "
                "method that learns both at once, such as consensus with learning=joint."
            )
        picks = self.shared_batches(count(shared), passes)
        with self._torch_stream("digest"):
            sums = self._steps(((None, pick) for pick in picks), shared, labels, 1.0)
        return Losses(float("nan"), sums.disagreement / len(picks), sums.trained)

    def _train(self, shared: Rows, labels: Array | None, lam: float, correct: Correction | None) -> Losses:
        if self._exact is not None:
            return self._solved(self._exact, shared, labels, lam, correct)
        draws = self._draws()
        if self.mechanism is not None and draws is None:
            return Losses(float("nan"))  # another round would exceed the budget: the model stays as it is
        schedule = self.next_round(count(shared) if labels is not None else 0, draws)
        with self._torch_stream(), self._hooks():
            sums = self._steps(schedule, shared, labels, lam, correct, draws)
        disagreement = sums.disagreement if lam > 0 and labels is not None else float("nan")
        passed = self._solve_last_layer(shared, labels, lam, correct) if self.training.solver == "both" else 0
        return self.end_round(sums.local, disagreement, sums.trained, sums.forward + passed)

    def _solve_last_layer(self, shared: Rows, labels: Array | None, lam: float, correct: Correction | None) -> int:
        """Exact steps of the last layer, near that which Adam left; returns the samples that passed forward."""
        with_shared = labels is not None and lam > 0
        exact = Exact(self.who, self.model, self.x, PULL, alone=False)
        known = exact.prepared_now(self.read.shared(shared) if with_shared else None, lam if with_shared else 0.0)
        target = self._target(labels) if with_shared and labels is not None else None
        for _ in range(STEPS_AFTER):
            exact.step(self.task, self.y, known, target, self._offsets, correct)
        return self.samples + (count(shared) if with_shared else 0)

    def _steps(
        self,
        schedule: Iterable[tuple[Array | None, Array | None]],
        shared: Rows,
        labels: Array | None,
        lam: float,
        correct: Correction | None = None,
        draws: Draws | None = None,
    ) -> Losses:
        """The steps of a schedule of private and shared samples; the sums of the two losses over them."""
        shared_x = self.read.shared(shared) if labels is not None else self.x
        target = self._target(labels) if labels is not None else self.y
        local_sum, shared_sum, trained, forward = torch.zeros(()), torch.zeros(()), 0, 0
        self.model.train()
        for own, pick in schedule:
            self.optimizer.zero_grad(set_to_none=True)
            if own is not None:
                local_sum += self._own_pass(torch.from_numpy(own), draws).cpu()
                trained += len(own)
            if pick is not None:
                seen = torch.from_numpy(pick)
                with torch.set_grad_enabled(lam > 0):
                    disagreement = self.task.loss(self._trained_out(shared_x, seen), target[seen])
                if lam > 0:
                    (lam * disagreement).backward()  # type: ignore[no-untyped-call]
                    trained += len(pick)
                else:
                    forward += len(pick)
                shared_sum += disagreement.detach().cpu()
            if correct is not None:
                for name, parameter in self.model.named_parameters():
                    if parameter.grad is not None:
                        parameter.grad = correct(name, parameter.grad, parameter.detach())
            self.optimizer.step()
        return Losses(local_sum.item(), shared_sum.item(), trained, forward)

    def _trained_out(self, inputs: Inputs, rows: Tensor) -> Tensor:
        """The output of the model for some rows in training; batch norm is in evaluation mode for a single row."""
        batch = picked(inputs, rows)
        if self.augment is not None:
            batch = self.augment(batch)
        with lone_sample(self.model, len(rows)):
            out: Tensor = called(self.model, batch)
        return single_precision(out)

    def _own_pass(self, mine: Tensor, draws: Draws | None) -> Tensor:
        """Puts the gradient of the loss on these private rows into the parameters; returns the loss."""

        def loss() -> Tensor:
            out = self._trained_out(self.x, mine)
            return self.task.loss(out if self._offsets is None else out + self._offsets, self.y[mine])

        if self.mechanism is None or draws is None:
            local = loss()
            local.backward()  # type: ignore[no-untyped-call]
            return local.detach()
        privacy, expected = self.mechanism.privacy, self.mechanism.rate * self.samples
        return self._per_sample.gradient(
            loss if len(mine) else None, privacy.clip, self.mechanism.noise, expected, draws
        )

    def _class_offsets(self) -> Tensor:
        """Added to the logits in the private loss, so that frequent classes are not preferred."""
        require_classes(self.task, f"{self.who}: class_balanced is for classes, and {self.task.name} has none.")
        return self._target(class_offsets(self.class_counts, self.outputs).astype(np.float32))

    def _private(self, privacy: Privacy) -> Mechanism:
        from consilience.privacy.gradients import PerSample

        self._per_sample = PerSample(self.name, self.model)
        self._noise = 1.0  # what private rows say of their noise would leak through trust
        rate = 1 / number_of_batches(self.samples, self.training.batch)
        return Mechanism(privacy, self.name, self.seed, self.samples, rate, self.steps)

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Within it, a private agent sees the gradients of single rows."""
        if self.mechanism is None:
            yield
        else:
            with self._per_sample.on():
                yield

    def inputs(self, rows: Rows) -> Inputs:
        """Inputs of the whole model for these rows."""
        return self.read.raw(rows)  # type: ignore[no-any-return]

    def _target(self, labels: Array) -> Tensor:
        tensor = for_network(self.who, labels)
        assert isinstance(tensor, Tensor)
        return tensor.to(self.device)
