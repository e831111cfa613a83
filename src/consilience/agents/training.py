"""How built-in networks train: the table [training] of the settings."""

from dataclasses import dataclass

from consilience.base.options import Options, option


@dataclass(frozen=True)
class Training(Options):
    """Local training of torch models. Estimators of scikit-learn are refitted in every round."""

    epochs: int = option(5, "passes over the private data per round", at_least=1)
    batch: int = option(64, "private samples per step", at_least=1)
    shared_batch: int = option(256, "shared samples per step", at_least=1)
    lr: float = option(0.005, "learning rate of Adam", above=0)
    batched: bool = option(True, "train small models of one architecture together: faster, equal up to rounding")
    augment: str = option(
        "none", "images in training: none | crop-flip (moved a little, and mirrored)", one_of=("none", "crop-flip")
    )
    class_balanced: bool = option(False, "the private loss makes up for classes that are frequent")
    ema: float = option(
        0.0, "an average of the weights over steps predicts; so much of it stays in a step", at_least=0, below=1
    )
    solver: str = option(
        "steps",
        "steps (Adam, in batches) | exact (for models of which one last layer is learned: an epoch is one step over "
        "all private and shared samples, without a learning rate)",
        one_of=("steps", "exact"),
    )
    decay: float = option(2e-5, "of weights, for the solver exact: in units of the mean squared feature", at_least=0)
