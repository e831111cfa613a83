"""What an agent promises its private rows: the table [agents.privacy] of the settings, and [privacy] of site.toml."""

from dataclasses import dataclass

from consilience.base.errors import ConsilienceError
from consilience.base.options import Options, option


@dataclass(frozen=True)
class Privacy(Options):
    """(epsilon, delta)-differential privacy for every row of an agent's private data, by DP-SGD.

    >>> Privacy(epsilon=4).on, Privacy().on
    (True, False)
    """

    epsilon: float = option(0.0, "budget of differential privacy for one row; 0 = not private", at_least=0)
    delta: float = option(1e-5, "chance that the promise does not hold; far below 1 / rows", above=0, below=1)
    clip: float = option(1.0, "largest norm of the gradient of one row", above=0)
    noise: float = option(0.0, "noise / clip; 0 = as much as the planned rounds need within the budget", at_least=0)
    secure: bool = option(False, "draw from the operating system; then no run can be repeated to the same bits")

    @property
    def on(self) -> bool:
        """Whether anything is promised."""
        return self.epsilon > 0

    def check(self, name: str, rows: int) -> None:
        """Raises an error if delta is so large that publishing one random row would be allowed."""
        if self.delta * rows >= 1:
            raise ConsilienceError(
                f"agent {name!r}: delta is {self.delta:g} for {rows} private rows. Publishing a row at random would "
                f"keep such a promise; use a delta far below 1 / rows, such as {0.1 / rows:.0e}."
            )
