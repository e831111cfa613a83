"""What an adversary can learn about private rows from the predictions that a run released."""
