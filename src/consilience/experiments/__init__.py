"""One experiment, or many: a method beside its references, and comparisons of methods over seeds."""
