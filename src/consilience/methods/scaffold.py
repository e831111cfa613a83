"""SCAFFOLD: control variates take the agents' drift out."""

from dataclasses import dataclass
from typing import Any, final

from consilience.agents.protocol import Weights
from consilience.base.options import option
from consilience.core.federated import scaffold_gradient, scaffold_server_variate, scaffold_variate
from consilience.methods import METHODS
from consilience.methods.server import Local, RoundEnd, ServerMethod, as_array, each


@METHODS.add("scaffold")
@final
@dataclass(frozen=True)
class Scaffold(ServerMethod):
    """The server keeps c, agent i keeps c_i, and every gradient becomes g - c_i + c (Karimireddy et al., 2020).

    As printed, c_i comes from the steps taken, (x - y) / (K lr). Under plain SGD that is the mean gradient; under Adam
    the steps are of order one per weight and drown the gradients, hence by default c_i is the mean gradient itself.
    """

    variates: str = option(
        "gradients",
        "c_i from the gradients | from the steps (as printed; fails under Adam)",
        one_of=("gradients", "steps"),
    )

    title = "SCAFFOLD"
    elementwise = True
    keeps_state = True
    sends_memory = True

    def gradient(self, g: Any, y: Any, x: Any, common: Any, own: Any) -> Any:
        """g - c_i + c."""
        return scaffold_gradient(g, own, common)

    def own_update(self, local: Local) -> Weights:
        """c_i+."""
        if self.variates == "gradients":
            return local.own | {name: as_array(total / local.agent.steps) for name, total in local.gradients.items()}
        steps, lr = local.agent.steps, local.agent.lr
        return each(
            lambda c_i, c, x, y: scaffold_variate(c_i, c, x, y, steps, lr), local.own, local.common, local.x, local.y
        )

    def server_update(self, end: RoundEnd) -> tuple[Weights, Weights]:
        """x+ = sum_i p_i y_i and c+ = c + sum_i p_i (c_i+ - c_i)."""
        n = len(end.own)
        variate = each(
            lambda c, *c_i: scaffold_server_variate(c, c_i[:n], c_i[n:], end.p), *(end.common, *end.before, *end.own)
        )
        return end.average(), variate
