"""An agent after a run, which predicts with whichever of its models is asked for."""

from collections.abc import Callable
from typing import final

from consilience.agents.base import Wrapper
from consilience.agents.calibration import PLACES, Calibration
from consilience.agents.protocol import Agent
from consilience.base.errors import ConsilienceError
from consilience.base.options import hint
from consilience.base.rows import Rows
from consilience.tasks.protocol import Array

MODELS = {
    "together": "the model trained together, as it is",
    "target": "the model trained together, calibrated, for the target domain",
    "home": "the home model: both models and the class frequencies at home",
    "alone": "the model trained alone",
}
"""What predictions can come from."""
Predict = Callable[[Rows], Array]


def predict_at(
    who: str, at: str, x: Rows, together: Predict, alone: Predict | None, calibration: Calibration | None
) -> Array:
    """Predictions of the model for `at`, one of `MODELS`; an error where there is no such model."""
    check_model(at)
    if at == "together":
        return together(x)
    if calibration is None and at != "alone":
        raise ConsilienceError(
            f"{who} has no {at} model: nothing was kept to calibrate it by. An agent that promises privacy keeps "
            "nothing, and neither do runs without references=[\"alone\"]. Predict with at='together'."
        )
    if alone is None and (at == "alone" or (at == "home" and calibration is not None and calibration.needs_alone)):
        raise ConsilienceError(f"{who} has no copy that trained alone, which at={at!r} needs. Run with a baseline.")
    if calibration is None:
        assert alone is not None
        return alone(x)
    if at == "target":
        return calibration.on_target(together(x))
    if at == "alone":
        assert alone is not None
        return alone(x)
    return calibration.at_home(together(x), alone(x) if calibration.needs_alone and alone is not None else None)


def sets_of(calibration: Calibration | None, f: Array, at: str, coverage: float) -> Array:
    """Prediction sets, or intervals, of predictions at home or on the target domain."""
    if calibration is None or at not in PLACES or not (0 < coverage < 1):
        raise ConsilienceError(
            f"there are no prediction sets for {at!r} with coverage {coverage:g}: they need calibrated models, home or "
            "target, and a coverage between 0 and 1."
        )
    return calibration.sets(f, at, coverage)


def check_model(at: str) -> None:
    """Refuses a name that is none of `MODELS`."""
    if at not in MODELS:
        raise ConsilienceError(f"there is no model for {at!r}. {hint(at, MODELS)}Known: {', '.join(MODELS)}.")


@final
class CalibratedAgent(Wrapper):
    """An agent of a finished run, with its calibration and the copy that trained alone.

    Args:
        agent: The agent, trained together.
        calibration: Of its models, if the run kept what it takes.
        alone: The copy that trained alone, if there is one.
    """

    def __init__(self, agent: Agent, calibration: Calibration | None, alone: Agent | None) -> None:
        super().__init__(agent)
        self.calibration, self.alone = calibration, alone

    def predict(self, x: Rows, at: str = "together") -> Array:
        """Class probabilities (samples, classes) or values (samples, outputs).

        Args:
            x: The samples.
            at: home (the agent's own domain) | target (the target domain) | alone | together (not calibrated).
        """
        alone = None if self.alone is None else self.alone.predict
        return predict_at(f"agent {self.name!r}", at, x, self.agent.predict, alone, self.calibration)

    def predict_sets(self, x: Rows, coverage: float = 0.9, at: str = "home") -> Array:
        """Which classes may be true (samples, classes); for values the ends of an interval (samples, outputs, 2).

        Args:
            x: The samples.
            coverage: How probable it shall be that the truth is in the set, for samples like the agent's own.
            at: home | target.
        """
        return sets_of(self.calibration, self.predict(x, at), at, coverage)
