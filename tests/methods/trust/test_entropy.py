"""The paper's trust."""

from consilience import Entropy


def test_an_offset_of_zero_is_that_of_the_paper():
    assert Entropy(offset=0).offset == 0.0
    assert (Entropy().offset, Entropy().floor) == (1.0, 1e-3)
