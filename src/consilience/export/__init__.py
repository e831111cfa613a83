"""A model to take home: a folder that predicts by itself, without training data, keys or peers."""
