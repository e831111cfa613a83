"""What is done with pseudo-labels before agents learn from them: (psi, memory) -> (psi, memory)."""
