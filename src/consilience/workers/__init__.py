"""Runs on many processes: independent ones side by side, the agents of one spread over several, torchrun."""
