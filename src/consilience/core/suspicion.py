"""Signs that an agent does not say what its own model predicts: pure comparisons of what was published.

None of them proves anything: a model that has stopped changing also says the same twice. They are reasons to look.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

SAME = 1e-4
"""Mean difference of two predictions below which they count as the same: what rounding or a little noise hides."""
JUMP = 0.2
"""Least rise of a correlation, from one round to the next, that counts as a jump."""
PART = 64
"""Samples that are compared at a time."""
SIGNS = ("stale", "copy", "echo", "jump")


@dataclass(frozen=True)
class Suspicion:
    """Why an agent is suspicious in a round."""

    agent: str
    sign: str
    """stale | copy | echo | jump."""
    of: str = ""
    """Whose predictions it repeats."""

    def __str__(self) -> str:
        return {
            "stale": f"{self.agent} said the same as in the round before",
            "copy": f"{self.agent} said the same as {self.of}",
            "echo": f"{self.agent} said the same as this site",
            "jump": f"{self.agent} agrees with this site far better than in the round before, unlike the others",
        }[self.sign]


def suspicions(me: str, now: Mapping[str, Array], before: Mapping[str, Array]) -> list[Suspicion]:
    """Suspicious agents, from the predictions (samples, classes) of this round and of the last one, by name.

    - stale: f_j(t) is f_j(t-1)
    - copy: f_j(t) is f_k(t) or f_k(t-1) of another peer k; of two that are the same now, both are named
    - echo: f_j(t) is ours, of this round or the last
    - jump: corr(f_me, f_j) rises by more than 0.2 and above that of every other peer, and the median of theirs rises by
      less than a quarter of that; peers that are named already say nothing of what is usual. Without the second, an
      honest agent that was unlike all others would be named when it first learns from them
    """
    found: list[Suspicion] = []
    peers = [name for name in now if name != me]
    said = [*now.items(), *((name, f) for name, f in before.items() if name in now)]
    begins = [f[:PART] for _, f in said]
    for place, name in enumerate(now):
        if name == me:
            continue
        alike = [said[at] for at in _alike(begins, place, now[name].size)]
        if any(other == name and is_same(now[name], f) for other, f in alike):
            found.append(Suspicion(name, "stale"))
            continue
        same = [other for other, f in alike if is_same(now[name], f)]
        if me in same:
            found.append(Suspicion(name, "echo", me))
        elif same:
            found.append(Suspicion(name, "copy", same[0]))
    if me in now and me in before:
        named = {one.agent for one in found}
        ours_now, ours_before = centred(now[me]), centred(before[me])
        known = [name for name in peers if name in before and name not in named]
        close = {name: _cosine(ours_now, centred(now[name])) for name in known}
        rises = {name: close[name] - _cosine(ours_before, centred(before[name])) for name in known}
        for name, rise in rises.items():
            usual = np.median([other for peer, other in rises.items() if peer != name] or [np.inf])
            if rise > JUMP and usual < rise / 4 and close[name] == max(close.values()):
                found.append(Suspicion(name, "jump", me))
    return found


def _alike(begins: list[Array], place: int, size: int) -> list[int]:
    """Places of those, but the one at `place`, that may be the same as it: all others differ in their first samples."""
    own = begins[place]
    others = [at for at, f in enumerate(begins) if at != place and f.shape == own.shape]
    if not others:
        return []
    differences = np.abs(np.stack([begins[at] for at in others]) - own).sum(axis=(1, 2), dtype=np.float64)
    return [at for at, difference in zip(others, differences, strict=True) if difference < SAME * size]


def is_same(one: Array, other: Array) -> bool:
    """Whether two predictions differ by less than 1e-4 on average.

    Most differ by more: then a part of the samples is enough to know it.
    """
    if one.shape != other.shape:
        return False
    difference, most = 0.0, SAME * one.size
    for at in range(0, len(one), PART):
        part = one[at : at + PART] - other[at : at + PART]
        difference += float(np.abs(part, out=part).sum(dtype=np.float64))
        if difference >= most:
            return False
    return one.size > 0


def correlation(one: Array, other: Array) -> float:
    """<u, v> / (|u| |v|) of predictions without their means over samples; 0 where one says always the same."""
    return _cosine(centred(one), centred(other))


def centred(f: Array) -> Array:
    """Predictions without their means over samples."""
    rest: Array = f - f.mean(axis=0, dtype=np.float64).astype(f.dtype)
    return rest


def _cosine(u: Array, v: Array) -> float:
    scale = np.sqrt(float(np.vdot(u, u)) * float(np.vdot(v, v)))
    return float(np.vdot(u, v)) / scale if scale > 0 else 0.0
