"""Better models together, without sharing data or weights: collaborative learning via prediction consensus.

`collaborate` is the place to begin. Names are loaded when they are first used (`__init__.pyi` lists them). What
extensions need is in `consilience.extend`, loggers in `consilience.loggers`, the mathematics in `consilience.core`.
"""

from consilience.base.lazy import lazy_names

__version__ = "0.2.0"
__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
