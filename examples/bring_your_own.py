"""Three agents with models of their own kinds learn handwritten digits together."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

import consilience as cs

torch.manual_seed(0)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32")
shared, target = x[:300], (x[300:900], y[300:900])  # the labels of the shared data are not used
own = [np.flatnonzero(part) + 900 for part in (y[900:] < 7, y[900:] > 2, y[900:] % 5 > 0)]  # some digits each
low, high, rest = own[0][:60], own[1][60:110], own[2][150:200]
network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
agents = [
    cs.TorchAgent(network, x[low], y[low], name="network"),
    cs.SklearnAgent(RandomForestClassifier(30), x[high], y[high], name="forest"),
    cs.SklearnAgent(LogisticRegression(max_iter=1000), x[rest], y[rest], name="logistic"),
]
method = cs.Consensus(lam=0.5, trust=cs.Entropy())  # or a name, such as "static" or "naive"
result = cs.collaborate(agents, shared=shared, method=method, rounds=20, target=target)

gains = result.gains.query("score == 'accuracy'")  # against a copy of each agent that trained alone, as long
print(gains.set_index("agent")[["alone", "together", "gain", "low", "high"]].round(3))
print(result.influence)
