"""The mathematics, with NumPy and SciPy alone: trust, pseudo-labels, and what the paper's theorems are about."""

from consilience.base.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
