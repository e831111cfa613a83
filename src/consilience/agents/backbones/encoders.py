"""What a backbone does with a batch of raw rows: prepare it, pass it through the network, pool the output."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, final

import torch
from torch import Tensor, nn
from torch.nn import functional

from consilience.agents.backbones.images import pixels_of, size_of_images
from consilience.agents.backbones.texts import texts_of
from consilience.base.errors import ConsilienceError
from consilience.base.rows import Rows, count, take

SMALLEST = 96
"""Images with fewer pixels a side are enlarged to this, unless a size is asked for."""
IMAGES = 16
"""Images that go through a network together: with fewer, convolutions round differently; what more of them need is
fresh memory for each layer, which takes longer than the convolution."""
TEXTS, TOKENS = 16, 16
"""Texts that go through a network together at most; they are filled up to a multiple of so many tokens."""


class Encoder(Protocol):
    """A network with everything that makes features of raw rows: the same to the bit, whichever rows are beside it."""

    @property
    def module(self) -> nn.Module:
        """The network."""

    def prepared(self, who: str, rows: Rows) -> tuple[Rows, str]:
        """The rows in a form that `features` takes in batches, and how they are prepared; an error for other rows."""

    def features(self, rows: Rows) -> Tensor:
        """The features of a batch of such rows (rows, features)."""

    def about(self) -> str:
        """All but the weights that features depend on, as text."""


@final
@dataclass(frozen=True)
class ImageEncoder:
    """Features of images (rows, 3, height, width) by a network on (pixels - mean) / deviation, pixels from 0 to 255."""

    module: nn.Module
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    side: int = 0
    """Height and width that images are brought to; 0 for their own, at least `SMALLEST`."""
    call: Callable[[nn.Module, Tensor], Any] | None = None
    """How the network is called; by default as it is."""

    def prepared(self, who: str, rows: Rows) -> tuple[Rows, str]:
        """Images of any kind that `images.pixels_of` reads, and the size that they are brought to."""
        height, width = size_of_images(who, rows, self.side)
        return rows, f"{self.side or max(height, SMALLEST)}x{self.side or max(width, SMALLEST)}"

    def features(self, rows: Rows) -> Tensor:
        """The mean of the output over places, where it has any."""
        x = pixels_of(rows, self.side)
        size = (self.side, self.side) if self.side else tuple(max(SMALLEST, side) for side in x.shape[2:])
        if tuple(x.shape[2:]) != size:
            x = functional.interpolate(x, size, mode="bilinear", antialias=size[0] < x.shape[2])
        mean, deviation = (torch.tensor(values).reshape(-1, 1, 1) for values in (self.mean, self.deviation))
        number, x = len(x), (x - mean) / deviation
        x = torch.cat([x, x[:1].expand(-number % IMAGES, -1, -1, -1)]).contiguous(memory_format=torch.channels_last)
        call = self.call or nn.Module.__call__
        return torch.cat([pooled(call(self.module, part)) for part in torch.split(x, IMAGES)])[:number]

    def about(self) -> str:
        """Scale and size."""
        return f"images {self.mean} {self.deviation} {self.side}"


@final
@dataclass(frozen=True)
class TextEncoder:
    """Features of texts: the mean over tokens of the last hidden state, padding left out."""

    module: nn.Module
    tokenizer: Any
    longest: int = 128
    """Tokens of a text that are read."""

    def prepared(self, who: str, rows: Rows) -> tuple[Rows, str]:
        """Texts as a list."""
        return texts_of(who, rows), "texts"

    def features(self, rows: Rows) -> Tensor:
        """Texts go through the network with others of similar length, so that little of it is padding."""
        tokens = self.tokenizer(list(rows), truncation=True, max_length=self.longest)
        lengths = [min(-(-max(len(ids), 1) // TOKENS) * TOKENS, self.longest) for ids in tokens["input_ids"]]
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        parts = []
        for length, same in groupby(order, key=lengths.__getitem__):
            alike = list(same)
            for at in range(0, len(alike), TEXTS):
                some = {name: [values[row] for row in alike[at : at + TEXTS]] for name, values in tokens.items()}
                padded = self.tokenizer.pad(some, padding="max_length", max_length=length, return_tensors="pt")
                hidden, mask = self.module(**padded).last_hidden_state, padded["attention_mask"].unsqueeze(2)
                parts.append((hidden * mask).sum(dim=1) / mask.sum(dim=1))
        features = torch.cat(parts)
        made = torch.empty_like(features)
        made[torch.tensor(order)] = features
        return made

    def about(self) -> str:
        """Length and vocabulary."""
        return f"texts {self.longest} {sorted(self.tokenizer.get_vocab().items())}"


def pooled(out: Any) -> Tensor:
    """The features in a network's output: the mean over tokens of a sequence, or over places of a map."""
    out = getattr(out, "last_hidden_state", out)
    if not isinstance(out, Tensor) or out.ndim not in (2, 3, 4):
        what = f"an output of the shape {tuple(out.shape)}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
        raise ConsilienceError(
            f"the backbone returns {what}. It must return features (rows, features), tokens (rows, tokens, features) "
            "or maps (rows, features, height, width)."
        )
    return out.mean(dim=(2, 3)) if out.ndim == 4 else out.mean(dim=1) if out.ndim == 3 else out


def batch_of(rows: Rows, start: int, step: int) -> Rows:
    """The rows of a batch."""
    return take(rows, slice(start, min(start + step, count(rows))))
