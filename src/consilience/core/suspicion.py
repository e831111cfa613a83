"""Signs that an agent does not publish its own model's predictions: comparisons of published predictions.

None of them is a proof: a model that has stopped changing also predicts the same twice. They are reasons to look.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

SAME = 1e-4
"""Mean difference below which two predictions count as the same, in spite of rounding or a little noise."""
JUMP = 0.2
"""Smallest rise of a correlation from one round to the next that counts as a jump."""
PART = 64
"""Samples that are compared at once."""
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
      less than a quarter of that, without peers that are already suspicious. The median protects an honest agent that
      was unlike all others when it first learns from them
    """
    suspicious: list[Suspicion] = []
    peers = [name for name in now if name != me]
    published = [*now.items(), *((name, f) for name, f in before.items() if name in now and f.shape == now[name].shape)]
    begins = np.stack([f[:PART].ravel() for _, f in published])
    for row, name in enumerate(now):
        if name == me:
            continue
        differences = np.abs(begins - begins[row]).sum(axis=1)  # most differ in their first samples
        alike = [published[at] for at in np.flatnonzero(differences < 1.01 * SAME * now[name].size) if at != row]
        if any(other == name and is_same(now[name], f) for other, f in alike):
            suspicious.append(Suspicion(name, "stale"))
            continue
        same = [other for other, f in alike if is_same(now[name], f)]
        if me in same:
            suspicious.append(Suspicion(name, "echo", me))
        elif same:
            suspicious.append(Suspicion(name, "copy", same[0]))
    if me in now and me in before:
        named = {suspicion.agent for suspicion in suspicious}
        known = [name for name in peers if name in before and name not in named]
        ours = centred(now[me])
        close = {name: _cosine(ours, centred(now[name])) for name in known}
        for name in (name for name in known if close[name] == max(close.values())):
            rise = close[name] - correlation(before[me], before[name])
            if rise > JUMP and rise > 4 * _usual_rise(me, close, before, name):
                suspicious.append(Suspicion(name, "jump", me))
    return suspicious


def _usual_rise(me: str, close: Mapping[str, float], before: Mapping[str, Array], name: str) -> float:
    """The median over peers but `name` by how much they came closer to us; infinite without peers."""
    ours = centred(before[me])
    others = [now - _cosine(ours, centred(before[peer])) for peer, now in close.items() if peer != name]
    return float(np.median(others or [np.inf]))


def is_same(f: Array, g: Array) -> bool:
    """Whether two predictions differ by less than 1e-4 on average.

    If they differ by more, a part of the samples is usually enough.
    """
    if f.shape != g.shape:
        return False
    total, most = 0.0, SAME * f.size
    for at in range(0, len(f), PART):
        difference = f[at : at + PART] - g[at : at + PART]
        total += float(np.abs(difference, out=difference).sum(dtype=np.float64))
        if total >= most:
            return False
    return f.size > 0


def correlation(f: Array, g: Array) -> float:
    """<u, v> / (|u| |v|) of predictions without their means over samples; 0 if one of them is constant."""
    return _cosine(centred(f), centred(g))


def centred(f: Array) -> Array:
    """Predictions without their means over samples; exactly 0 where they are constant."""
    rest: Array = f - f[:1]
    rest -= np.einsum("xc->c", rest) / max(1, len(f))
    return rest


def _cosine(u: Array, v: Array) -> float:
    scale = np.sqrt(_dot(u, u) * _dot(v, v))
    return float(_dot(u, v) / scale) if scale > 0 else 0.0


def _dot(u: Array, v: Array) -> float:
    """<u, v> in one thread, as the threads of a BLAS stay busy for a while after they are done."""
    return float(np.einsum("xc,xc->x", u, v).sum())
