"""Random changes of images."""

import pytest
import torch

from consilience import ConsilienceError
from consilience.agents.tensors import augmentation, crop_flip


def test_crop_flip_with_plain_loops():
    images = torch.rand(5, 3, 16, 24).contiguous(memory_format=torch.channels_last)
    torch.manual_seed(3)
    found = crop_flip(images)
    torch.manual_seed(3)
    edge = 3
    down, right = torch.randint(0, 2 * edge + 1, (2, 5, 1))
    mirrored = torch.rand(5, 1) < 0.5
    for number in range(5):
        for row in range(16):
            for column in range(24):
                r = row + int(down[number]) - edge
                c = (23 - column if mirrored[number] else column) + int(right[number]) - edge
                inside = 0 <= r < 16 and 0 <= c < 24
                expected = images[number, :, r, c] if inside else torch.zeros(3)
                assert torch.equal(found[number, :, row, column], expected)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert mirrored.any() and not mirrored.all()


def test_other_draws_give_other_images():
    images = torch.rand(8, 3, 32, 32)
    assert not torch.equal(crop_flip(images), crop_flip(images))


def test_what_is_no_image_and_what_has_no_name_are_refused():
    with pytest.raises(ConsilienceError, match="which is for images"):
        crop_flip(torch.rand(5, 4))
    with pytest.raises(ConsilienceError, match="Known: none, crop-flip"):
        augmentation("cut")
