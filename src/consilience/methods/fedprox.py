"""FedProx: FedAvg with models held near the server's."""

from dataclasses import dataclass
from typing import Any, final

from consilience.base.options import option
from consilience.core.federated import fedprox_gradient
from consilience.methods import METHODS
from consilience.methods.server import ServerMethod


@METHODS.add("fedprox")
@final
@dataclass(frozen=True)
class FedProx(ServerMethod):
    """Agents minimise F_i(y) + mu/2 |y - x|^2 (Li et al., 2020, Algorithm 2)."""

    mu: float = option(0.01, "weight of the distance to the server's model", at_least=0)

    elementwise = True

    def gradient(self, g: Any, y: Any, x: Any, common: Any, own: Any) -> Any:
        """g + mu (y - x)."""
        return fedprox_gradient(g, y, x, self.mu)
