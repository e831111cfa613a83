"""Datasets, partitions and scenarios. Knows nothing of agents."""
