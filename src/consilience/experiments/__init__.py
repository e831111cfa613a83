"""Settings, the one place that wires objects, and comparisons of methods."""
