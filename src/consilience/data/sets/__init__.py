"""Datasets under their names: a file registers its own."""
