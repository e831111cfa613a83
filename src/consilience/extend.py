"""What one needs to write a method, a trust rule, an agent, a dataset, a model or a task (`extend.pyi` lists it)."""

from consilience.base.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
