"""FedAvg of the same agents by other libraries: one script each, run by the interpreter of its own environment.

A script takes a file that `task.write` wrote and prints one JSON line: the seconds of every round, by the clock and of
the processor, and the accuracy of the last model.
"""
