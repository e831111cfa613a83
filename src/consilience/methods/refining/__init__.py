"""Changes of pseudo-labels before agents learn from them: (psi, memory) -> (psi, memory)."""
