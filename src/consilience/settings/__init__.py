"""The settings of an experiment, the presets, and the one place that wires objects from them."""
