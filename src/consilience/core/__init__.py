"""The mathematics of the paper, in NumPy: arrays in, arrays out."""
