"""Figure 2: four networks, two of them with flipped labels."""

import numpy as np

from consilience.paper.fig2 import AXIS, CENTRES, Fig2, gaussian_classes
from tests.paper.test_toys import holding


def test_good_agents_are_better_with_dynamic_than_with_naive_trust_and_alone(four_networks: Fig2) -> None:
    mean = four_networks.accuracies[:3].mean()
    assert mean["paper"] > mean["naive"] > mean["alone"]
    assert {"dynamic beats naive", "dynamic beats alone"} <= holding(four_networks.claims)


def test_flipped_labels_are_trusted_least_in_every_round(four_networks: Fig2) -> None:
    assert (four_networks.received.argmin(axis=1) == 3).all()
    assert four_networks.accuracies["paper"][3] < 0.2


def test_good_agents_put_the_mean_of_each_class_into_its_region(four_networks: Fig2) -> None:
    for label, (x, y) in enumerate(CENTRES):
        place = np.abs(AXIS - y).argmin(), np.abs(AXIS - x).argmin()
        for method in ("alone", "naive", "paper"):
            assert [int(four_networks.regions[method][(agent, *place)]) for agent in range(3)] == [label] * 3


def test_labels_are_flipped_as_the_paper_says() -> None:
    scenario = gaussian_classes(seed=3)
    truth = np.repeat(np.arange(4), 25)
    assert [int((share.y != truth).sum()) for share in scenario.shares.values()] == [10, 10, 10, 100]
    assert np.bincount(scenario.shared_y).tolist() == [50] * 4


def test_another_seed_gives_other_data() -> None:
    assert gaussian_classes(0).fingerprint() == gaussian_classes(0).fingerprint() != gaussian_classes(1).fingerprint()
