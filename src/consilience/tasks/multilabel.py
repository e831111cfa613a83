"""Several yes-or-no labels a sample: predictions are the probability of each, and rows do not sum to one."""

from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.core import bootstrap, metrics
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    from torch import Tensor


def _pair(p: Array) -> Array:
    """The distribution (1 - p, p) for every probability p, along a new last axis."""
    return np.stack([1 - p, p], axis=-1)


def _right(f: Array, y: Array) -> Array:
    return np.asarray((f > 0.5) == (y > 0.5), dtype=np.float64)


def _all_right(f: Array, y: Array) -> Array:
    return np.asarray(_right(f, y).min(axis=1))


_ACCURACY = bootstrap.mean_of(lambda f, y: _right(f, y).mean(axis=1), share=True)
_SUBSET = bootstrap.mean_of(_all_right, share=True)
_AUC, _LOG_LOSS, _CALIBRATION_ERROR = (
    bootstrap.by_label(sums, _pair) for sums in (bootstrap.AUC, bootstrap.LOG_LOSS, bootstrap.CALIBRATION_ERROR)
)


@final
class MultiLabel:
    """dist(f, psi) = mean over labels of the binary cross-entropy; every label is a question of its own."""

    name = "multilabel"
    trust = "stratified"
    sums_to_one = False
    noisy = False
    has_classes = False
    named_outputs = True
    scale = "labels"
    outputs_are = "labels"
    scores = (
        Score("accuracy", "accuracy (mean over labels)", lambda f, y: float(_right(f, y).mean()), sums=_ACCURACY),
        Score("subset_accuracy", "all labels right", lambda f, y: float(_all_right(f, y).mean()), sums=_SUBSET),
        Score("auc", "AUC", lambda f, y: _by_label(metrics.auc, f, y), sums=_AUC),
        Score("log_loss", "log loss", lambda f, y: _by_label(metrics.log_loss, f, y), False, _LOG_LOSS),
        Score(
            "calibration_error",
            "calibration error",
            lambda f, y: _by_label(metrics.calibration_error, f, y),
            False,
            _CALIBRATION_ERROR,
        ),
    )

    def labels(self, y: Array) -> Array:
        """Zeros and ones (samples, labels) in float32."""
        if y.ndim != 2 or not np.isin(y, (0, 1)).all():
            raise ConsilienceError(
                f"labels must be a table of zeros and ones with a column for each label (got {y.dtype}, shape "
                f"{y.shape}). Encode sets of names with sklearn.preprocessing.MultiLabelBinarizer, with the same "
                "classes for all agents."
            )
        return y.astype(np.float32)

    def outputs(self, y: Array) -> int:
        """The columns."""
        return int(y.shape[1])

    def counts(self, y: Array) -> list[int]:
        """Samples that have each label."""
        return [int(count) for count in y.sum(axis=0)]

    def problem(self, f: Array) -> tuple[NDArray[np.bool_], str]:
        """Rows with a value outside 0 to 1."""
        bad = ((f < -1e-6) | (f > 1 + 1e-3)).any(axis=1)
        row = int(bad.argmax())
        return np.asarray(bad), (
            f"not probabilities (first: row {row}, from {f[row].min():.3g} to {f[row].max():.3g}). "
            "Did it send logits? Apply the sigmoid function."
        )

    def targets(self, y: Array, outputs: int) -> Array:
        """The zeros and ones."""
        return y

    def distance(self, f: Array, psi: Array) -> float:
        """Mean over samples and labels of - psi log f - (1 - psi) log(1 - f)."""
        return float(np.mean([metrics.cross_entropy(_pair(f[:, k]), _pair(psi[:, k])) for k in range(f.shape[1])]))

    def probabilities(self, f: Array) -> Array | None:
        """A distribution over no and yes for each sample and label (agents, samples x labels, 2)."""
        return _pair(f.reshape(len(f), -1))

    def questions(self, targets: Array) -> list[Array]:
        """One for each label: no or yes?"""
        return [_pair(targets[:, label]) for label in range(targets.shape[1])]

    def question_count(self, outputs: int) -> int:
        """As many as labels."""
        return outputs

    def question_classes(self, outputs: int) -> int:
        """No and yes."""
        return 2

    def join(self, answers: list[Array]) -> Array:
        """The probabilities of yes."""
        return np.stack([answer[:, 1] for answer in answers], axis=1)

    def predictions(self, out: "Tensor") -> "Tensor":
        """sigmoid of the logits."""
        return out.sigmoid()

    def loss(self, out: "Tensor", target: "Tensor") -> "Tensor":
        """Binary cross-entropy, mean over samples and labels."""
        from torch.nn import functional

        return functional.binary_cross_entropy_with_logits(out, target)

    def stacked_loss(self, out: "Tensor", target: "Tensor") -> "tuple[Tensor, Tensor]":
        """Binary cross-entropy, whose gradient is sigmoid - target, over the number of labels."""
        from torch.nn import functional

        loss = functional.binary_cross_entropy_with_logits(out, target, reduction="none").mean(dim=2)
        return loss, (out.sigmoid() - target) / out.shape[2]


def _by_label(measure: "metrics.Measure", f: Array, y: Array) -> float:
    """The mean over labels of a score for two classes, where it is defined."""
    values = [measure(_pair(f[:, label]), y[:, label].astype(np.int64)) for label in range(f.shape[1])]
    defined = [value for value in values if not np.isnan(value)]
    return float(np.mean(defined)) if defined else float("nan")


TASKS.add("multilabel")(MultiLabel())
