"""What an adversary can learn of private rows from what a run released."""
