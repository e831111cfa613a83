"""What every worker needs, imported once by the server from which workers are forked.

Importing takes seconds, forking does not. Without garbage collection it takes a tenth less time.
"""

import gc

gc.disable()
import sklearn.datasets  # noqa: E402
import sklearn.ensemble  # noqa: E402
import sklearn.linear_model  # noqa: E402, F401

import consilience.agents.batched  # noqa: E402
import consilience.workers.work  # noqa: E402, F401

gc.freeze()
gc.enable()
