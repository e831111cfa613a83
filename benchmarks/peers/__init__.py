"""FedAvg of the same agents by other libraries: one script each, run by the interpreter of its own environment.

A script takes a file that `task.write` wrote and prints one JSON line: the CPU seconds of every round, and the
accuracy of the last model.
"""
