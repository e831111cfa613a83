"""The attacks of an audit."""

import os
import signal

import numpy as np
import pytest

from consilience.audit.attacks import student


def test_an_interrupted_audit_ends_instead_of_going_on_with_half_a_student(monkeypatch):
    from sklearn.neural_network import MLPRegressor

    steps = []

    def interrupted(self, *arguments):
        steps.append(1)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(self, *arguments)

    loss = MLPRegressor._backprop
    monkeypatch.setattr(MLPRegressor, "_backprop", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            student(np.eye(8), np.full((8, 3), 1 / 3), 0, "a")
    finally:
        signal.signal(signal.SIGINT, before)
