"""Agents train with one thread, as in a run."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread(one_thread: None) -> None:
    """Several threads make small models slower."""
