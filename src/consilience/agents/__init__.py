"""Things that learn: a protocol, and one class per kind of model."""
