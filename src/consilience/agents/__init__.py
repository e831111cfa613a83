"""Things that learn: agents around models of any kind, and wrappers around agents."""
