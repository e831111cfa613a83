"""Changes of what was heard before agents learn from it: new pseudo-labels and memory."""
