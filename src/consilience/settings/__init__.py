"""The settings of an experiment: tables of dataclasses, presets, and the one place that wires objects from them."""
