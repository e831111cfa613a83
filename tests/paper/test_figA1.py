"""Figure A1: a weak agent among strong ones."""

from consilience.paper.fig1 import ROUNDS
from consilience.paper.figA1 import FigA1


def test_strong_agents_are_better_with_dynamic_than_with_naive_trust(weak_among_strong: FigA1) -> None:
    strong, weak = weak_among_strong.errors[:3], weak_among_strong.errors.iloc[3]
    assert (strong["paper"] < strong["naive"]).all()
    assert strong["paper"].max() < 1 < strong["naive"].min()
    assert weak["paper"] > 2 * strong["paper"].max()


def test_trust_in_the_weak_agent_falls_from_a_peak_and_never_reaches_an_equal_share(weak_among_strong: FigA1) -> None:
    trust = weak_among_strong.trust_in_weak
    assert len(trust) == ROUNDS
    assert trust.max() < 1 / 4
    assert trust[-1] < trust[0]
    assert trust[-1] < trust.max()
