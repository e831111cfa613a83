"""FedDyn: a regulariser that follows each agent's gradient."""

from dataclasses import dataclass
from typing import Any, final

from consilience.agents.protocol import Weights
from consilience.base.options import option
from consilience.core.federated import feddyn_dual, feddyn_gradient, feddyn_memory, feddyn_server
from consilience.methods import METHODS
from consilience.methods.server import Local, RoundEnd, ServerMethod, each


@METHODS.add("feddyn")
@final
@dataclass(frozen=True)
class FedDyn(ServerMethod):
    """Agents minimise F_i(y) - <lambda_i, y> + alpha/2 |y - x|^2; the server keeps h (Acar et al., 2021, Alg. 1)."""

    alpha: float = option(0.1, "weight of the dynamic regulariser", above=0)

    evaluate: str = option(
        "server",
        "agents are evaluated with the server's model | the average of theirs, as its authors do",
        one_of=("server", "average"),
    )

    elementwise = True
    keeps_state = True

    @property
    def title(self) -> str:
        """With the model that is evaluated, if it is not the server's."""
        return "FedDyn" if self.evaluate == "server" else "FedDyn (average of agents)"

    def published_model(self, end: RoundEnd, x: Weights) -> Weights:
        """x, or sum_i p_i y_i."""
        return x if self.evaluate == "server" else end.average()

    def gradient(self, g: Any, y: Any, x: Any, common: Any, own: Any) -> Any:
        """g - lambda_i + alpha (y - x)."""
        return feddyn_gradient(g, y, x, own, self.alpha)

    def own_update(self, local: Local) -> Weights:
        """lambda_i+ = lambda_i - alpha (y - x)."""
        return each(lambda lam_i, x, y: feddyn_dual(lam_i, y, x, self.alpha), local.own, local.x, local.y)

    def server_update(self, end: RoundEnd) -> tuple[Weights, Weights]:
        """h+ = h - alpha sum_i p_i (y_i - x) and x+ = sum_i p_i y_i - h+ / alpha; h acts on parameters alone."""
        h = each(lambda h, x, *y: feddyn_memory(h, y, x, end.p, self.alpha), end.common, end.x, *end.y)
        x = each(lambda h, *y: feddyn_server(y, h, end.p, self.alpha), h, *end.y)
        return end.average() | x, h
