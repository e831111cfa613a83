"""The paper's regression example, which comes divided among agents."""

from consilience.data.datasets import Request, Size, dataset
from consilience.data.scenario import Scenario, polynomial


@dataset("polynomial", Size(200, 1, 1))
def made(request: Request) -> Scenario:
    """At most four agents, three unless asked otherwise, that see different ranges of one cubic curve."""
    return polynomial(request.seed, request.agents or 3)
