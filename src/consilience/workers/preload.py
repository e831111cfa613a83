"""What every worker needs, imported once by the server from which workers are forked.

Importing takes seconds, forking does not. The garbage collector rests meanwhile: there is no garbage, and looking for
it takes a tenth of the time. Ctrl-C meanwhile is for the program, which ends this process: no traceback of its own.
"""

import gc
import signal

gc.disable()
before = signal.signal(signal.SIGINT, signal.SIG_IGN)
import sklearn.datasets  # noqa: E402
import sklearn.ensemble  # noqa: E402
import sklearn.linear_model  # noqa: E402, F401

import consilience.agents.batched  # noqa: E402
import consilience.workers.work  # noqa: E402, F401

signal.signal(signal.SIGINT, before)
gc.freeze()
gc.enable()
