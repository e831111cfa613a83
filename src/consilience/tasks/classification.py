"""One class of several: labels are class numbers, predictions are probabilities of all classes."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from consilience.base.errors import ConsilienceError
from consilience.core import bootstrap, many_scores, metrics
from consilience.tasks import TASKS
from consilience.tasks.protocol import Array, Score

if TYPE_CHECKING:
    from torch import Tensor


class Classification:
    """dist(f, psi) = - sum_c psi_c log f_c, the cross-entropy. Other tasks may be this one with other scores."""

    name = "classification"
    trust = "stratified"
    sums_to_one = True
    noisy = False
    has_classes = True
    named_outputs = True
    scale = "classes"
    outputs_are = "classes"
    scores = (
        Score("accuracy", "accuracy", metrics.accuracy, True, bootstrap.ACCURACY, many_scores.accuracy),
        Score(
            "balanced_accuracy",
            "balanced accuracy",
            metrics.balanced_accuracy,
            True,
            bootstrap.BALANCED_ACCURACY,
            many_scores.balanced_accuracy,
        ),
        Score("auc", "AUC", metrics.auc, True, bootstrap.AUC, many_scores.auc),
        Score("sensitivity", "sensitivity", metrics.sensitivity, True, bootstrap.SENSITIVITY, many_scores.sensitivity),
        Score("specificity", "specificity", metrics.specificity, True, bootstrap.SPECIFICITY, many_scores.specificity),
        Score("log_loss", "log loss", metrics.log_loss, False, bootstrap.LOG_LOSS, many_scores.log_loss),
        Score(
            "calibration_error",
            "calibration error",
            metrics.calibration_error,
            False,
            bootstrap.CALIBRATION_ERROR,
            many_scores.calibration_error,
        ),
    )

    def labels(self, y: Array) -> Array:
        """Class numbers (samples,)."""
        numbers = np.issubdtype(y.dtype, np.number) and y.ndim == 1 and np.isfinite(y).all()
        if not numbers or (y != np.floor(y)).any() or y.min() < 0:
            raise ConsilienceError(
                f"labels must be class numbers 0, 1, 2, ... in one dimension (got {y.dtype}, shape {y.shape}). "
                "Encode names with sklearn.preprocessing.LabelEncoder, with the same classes for all agents."
            )
        return y.astype(np.int64)

    def outputs(self, y: Array) -> int:
        """The largest class number and one."""
        return int(y.max()) + 1

    def counts(self, y: Array) -> list[int]:
        """Samples of each class."""
        counts: list[int] = np.bincount(y).tolist()
        return counts

    def problem(self, f: Array) -> tuple[NDArray[np.bool_], str]:
        """Rows that are not probabilities. Mostly there are none, and sums in single precision are enough to see it."""
        if f.min(initial=0) >= 0 and np.abs(np.einsum("xc->x", f) - 1).max(initial=0) < 5e-4:
            return np.zeros(len(f), dtype=bool), ""
        total = f.sum(axis=1, dtype=np.float64)
        bad = (np.abs(total - 1) > 1e-3) | (f.min(axis=1) < -1e-6)
        row = int(bad.argmax())
        return bad, (
            f"not probabilities (first: row {row}, smallest {f[row].min():.3g}, sum {total[row]:.3g}). "
            "Did it send logits? Apply softmax."
        )

    def targets(self, y: Array, outputs: int) -> Array:
        """One-hot rows."""
        return np.eye(outputs, dtype=np.float32)[y]

    def distance(self, f: Array, psi: Array) -> float:
        """Mean over samples of - sum_c psi_c log f_c."""
        return metrics.cross_entropy(f, psi)

    def probabilities(self, f: Array) -> Array | None:
        """They are as they should be."""
        return f

    def questions(self, targets: Array) -> list[Array]:
        """One: which class?"""
        return [targets]

    def question_count(self, outputs: int) -> int:
        """One."""
        return 1

    def question_classes(self, outputs: int) -> int:
        """All of them."""
        return outputs

    def join(self, answers: list[Array]) -> Array:
        """The answer itself."""
        return answers[0]

    def predictions(self, out: "Tensor") -> "Tensor":
        """softmax of the logits."""
        return out.softmax(dim=1)

    def stacked_predictions(self, out: "Tensor") -> "Tensor":
        """The same for many models (models, samples, classes); along samples it is seven times as fast."""
        return out.mT.contiguous().softmax(dim=1).mT.contiguous()

    def loss(self, out: "Tensor", target: "Tensor") -> "Tensor":
        """Cross-entropy against class numbers or probabilities."""
        from torch.nn import functional

        return functional.cross_entropy(out, target)

    def stacked_loss(self, out: "Tensor", target: "Tensor") -> "tuple[Tensor, Tensor]":
        """Cross-entropy, whose gradient is softmax - target (for targets that sum to one)."""
        log = out.log_softmax(dim=2)
        loss = -(target * log).sum(dim=2)
        return loss, log.exp_().mul_(target.sum(dim=2, keepdim=True)).sub_(target)


TASKS.add("classification")(Classification())
