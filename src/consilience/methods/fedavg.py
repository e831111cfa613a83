"""FedAvg: models are averaged."""

from dataclasses import dataclass
from typing import final

from consilience.methods import METHODS
from consilience.methods.server import ServerMethod


@METHODS.add("fedavg")
@final
@dataclass(frozen=True)
class FedAvg(ServerMethod):
    """x <- sum_i p_i y_i with p_i agent i's share of the samples (McMahan et al., 2017, Algorithm 1)."""
