"""Several yes-or-no labels a sample: three agents learn whether a digit is even, is prime, and has a loop."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import nn

import consilience as cs

torch.manual_seed(0)
x, digit = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
y = np.stack([np.isin(digit, chosen) for chosen in ([0, 2, 4, 6, 8], [2, 3, 5, 7], [0, 6, 8, 9])], axis=1).astype(int)
small, deep = nn.Linear(64, 3), nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
agents = [
    cs.TorchAgent(small, x[900:950], y[900:950], name="small", task="multilabel"),
    cs.TorchAgent(deep, x[950:1000], y[950:1000], name="deep", task="multilabel"),
    cs.SklearnAgent(LogisticRegression(max_iter=1000), x[1000:1050], y[1000:1050], name="logistic"),
]
target = (x[300:900], y[300:900])
result = cs.collaborate(agents, shared=x[:300], rounds=20, target=target, class_names=["even", "prime", "loop"])

gains = result.gains.query("score == 'accuracy'")  # against a copy of each agent that trained alone, as long
print(gains.set_index("agent")[["alone", "together", "gain", "low", "high"]].round(3))
