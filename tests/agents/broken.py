"""A small agent of ones own, and what can be wrong with such a one; each fault with the sentence that names it."""

import random
import sys

import numpy as np
import torch

from consilience.extend import TASKS, Losses


class Nearest:
    """A small agent of its own: the nearest class mean, moved a little towards the pseudo-labels in every round."""

    kind, parameters, noise = "means", None, 1.0

    def __init__(self, x, y, name):
        self.name, self.task, self.outputs, self.samples = name, TASKS.find("classification"), 3, len(y)
        self.class_counts = np.bincount(y, minlength=3).tolist()
        self.means = np.stack([x[y == c].mean(axis=0) for c in range(3)]).astype(np.float64)
        self.rounds = np.array(0)

    def predict(self, x):
        closeness = np.exp(-np.linalg.norm(x[:, None] - self.means, axis=2))
        return closeness / closeness.sum(axis=1, keepdims=True)

    def train(self, shared, labels, lam):
        self.rounds += 1
        if labels is not None and lam > 0:
            target = labels.T @ shared / labels.sum(axis=0)[:, None]
            self.means += lam / (1 + self.rounds) * (target - self.means)
        return Losses(0.5)

    def state(self):
        return {"means": self.means.copy(), "rounds": self.rounds.copy()}

    def restore(self, state, shared):
        self.means, self.rounds = state["means"].copy(), state["rounds"].copy()


class HasWeights(Nearest):
    """The same with weights that can be averaged."""

    steps, lr, trained_names = 1, 0.1, ("means",)

    def weights(self):
        return {"means": self.means.copy()}

    def set_weights(self, weights):
        self.means = weights["means"].copy()

    def reset_optimizer(self):
        pass

    def train_alone(self, correct=None):
        self.means += 0.1
        return Losses(0.5)


class Nameless(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, "me")


class MiscountedSamples(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, name)
        self.samples += 1


class TaskIsAWord(Nearest):
    def __init__(self, x, y, name):
        super().__init__(x, y, name)
        self.task = "classification"


class Lacking(Nearest):
    restore = property()


class Unfitted(Nearest):
    def predict(self, x):
        if not self.rounds:
            raise AttributeError("call fit first")
        return super().predict(x)


class Logits(Nearest):
    def predict(self, x):
        return np.log(super().predict(x))


class LosesSamples(Nearest):
    def predict(self, x):
        return super().predict(x)[:-1]


class OtherClasses(Nearest):
    def predict(self, x):
        return np.pad(super().predict(x), ((0, 0), (0, 1)))


class NotFinite(Nearest):
    def predict(self, x):
        return super().predict(x) * np.nan


class Fickle(Nearest):
    calls = 0

    def predict(self, x):
        self.calls += 1
        f = super().predict(x) + self.calls * 1e-3
        return f / f.sum(axis=1, keepdims=True)


class Gregarious(Nearest):
    """As batch norm does in training mode."""

    def predict(self, x):
        return super().predict(x - x.mean(axis=0))


class Scribbler(Nearest):
    def predict(self, x):
        x[:] = x.round(2)
        return super().predict(x)


class SaysTooLittle(Nearest):
    def publish(self, shared):
        return self.predict(shared)[:2]


class Silent(Nearest):
    def train(self, shared, labels, lam):
        super().train(shared, labels, lam)


class Diverging(Nearest):
    def train(self, shared, labels, lam):
        super().train(shared, labels, lam)
        return Losses(float("nan"))


class Failing(Nearest):
    def train(self, shared, labels, lam):
        return Losses(0.5) if labels is None else Losses(labels["a"])


class ChangesLabels(Nearest):
    def train(self, shared, labels, lam):
        if labels is not None:
            labels[:] = 1 / 3
        return Losses(0.5)


class ChangesShared(Nearest):
    def train(self, shared, labels, lam):
        shared -= shared.mean(axis=0)
        return Losses(0.5)


class Noiseless(Nearest):
    def train(self, shared, labels, lam):
        self.noise = 0.0
        return Losses(0.5)


class Unseeded(Nearest):
    def train(self, shared, labels, lam):
        self.means = self.means + np.random.default_rng().normal(0, 0.1, self.means.shape)
        return Losses(0.5)


class SavesAList(Nearest):
    def state(self):
        return {"means": self.means.tolist()}


class SavesObjects(Nearest):
    def state(self):
        return {"model": np.array([self.means], dtype=object), "me": np.array({"a": 1})}


class SavesNothing(Nearest):
    def state(self):
        return {}


class SavesItself(Nearest):
    def state(self):
        return {"means": self.means, "rounds": self.rounds}


class Forgetful(Nearest):
    def restore(self, state, shared):
        self.means = state["means"].copy()


class DrawsFromNumpy(Nearest):
    def __init__(self, x, y, name):
        np.random.seed(0)  # noqa: NPY002
        super().__init__(x, y, name)


class DrawsFromTorch(Nearest):
    def predict(self, x):
        torch.rand(1)
        return super().predict(x)


class DrawsFromPython(Nearest):
    def train(self, shared, labels, lam):
        random.random()
        return super().train(shared, labels, lam)


class WidensByWord(Nearest):
    def accept_classes(self, outputs):
        self.outputs = outputs


class LendsWeights(HasWeights):
    def weights(self):
        return {"means": self.means}


class KeepsWeights(HasWeights):
    def set_weights(self, weights):
        pass


class TrainsUnknown(HasWeights):
    trained_names = ("means", "bias")


class SilentAlone(HasWeights):
    def train_alone(self, correct=None):
        return 0.5


class Tampered(Nearest):
    """Knows by whom it is asked."""

    def __getattribute__(self, name):
        if name == "predict" and sys._getframe(1).f_code.co_name == "__getattr__":
            return lambda x: np.full((len(x), 3), 1 / 3)
        return super().__getattribute__(name)


FAULTS = {
    Lacking: r"^Lacking lacks restore of an agent\.$",
    Nameless: r"its name is 'me', but make_agent was given 'checked'",
    MiscountedSamples: r"samples is 61, but it was given 60",
    TaskIsAWord: r"task is 'classification'; use consilience\.extend\.TASKS\.find",
    Unfitted: r"predicting before any training raised AttributeError: call fit first\.",
    Logits: r"30 of 30 rows are not probabilities .*Did it send logits\? Apply softmax",
    LosesSamples: r"predictions have shape \(29, 3\), but there are 30 samples",
    OtherClasses: r"predictions have 4 columns, the others have 3 classes",
    NotFinite: r"30 of 30 rows are not finite",
    Fickle: r"predicting twice gives different numbers",
    Gregarious: r"depends on the other samples \(is a network in training mode\?\)",
    Scribbler: r"predict changed the samples that it was given",
    SaysTooLittle: r"predictions have shape \(2, 3\), but there are 30 samples",
    Silent: r"train returned NoneType, not consilience\.extend\.Losses",
    Diverging: r"the local loss after training is nan",
    Failing: r"training raised IndexError: ",
    ChangesLabels: r"train changed the pseudo-labels that it was given",
    ChangesShared: r"train changed the shared data that it was given",
    Noiseless: r"noise is 0\.0; it must be a number above 0",
    Unseeded: r"two agents made and trained in the same way predict differently",
    SavesAList: r"state\(\) must be a dict of NumPy arrays of numbers",
    SavesObjects: r"state\(\) must be a dict of NumPy arrays of numbers",
    SavesNothing: r"state\(\) is empty",
    SavesItself: r"what state\(\) returned changed when the agent trained on\. Return copies",
    Forgetful: r"after restore\(state\(\)\) and one more round it predicts otherwise",
    DrawsFromNumpy: r"making it changed the state of a global random generator",
    DrawsFromTorch: r"predicting before any training changed the state of a global random generator",
    DrawsFromPython: r"training changed the state of a global random generator",
    WidensByWord: r"predictions have 3 columns, the others have 4 classes",
    LendsWeights: r"what weights\(\) returned changed when the agent trained on",
    KeepsWeights: r"an agent that took over the weights of another predicts otherwise",
    TrainsUnknown: r"trained_names has bias, which weights\(\) does not",
    SilentAlone: r"train_alone returned float, not consilience\.extend\.Losses",
    Tampered: r"in a wrapper that passes everything on it behaves otherwise",
}
