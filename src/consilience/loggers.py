"""Loggers: callbacks that write to a tracking tool (`loggers.pyi` lists them)."""

from consilience.base.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
