"""Values instead of classes: three clinics predict how far diabetes goes on (442 patients, in scikit-learn).

Each clinic has few patients. A tree that repeats its training data still knows how noisy they are: that is measured on
patients that a model did not see, and trust is in that unit.
"""

import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

import consilience as cs

x, y = load_diabetes(return_X_y=True, as_frame=True)
order = x.sample(frac=1, random_state=0).index
x, y = x.loc[order], y.loc[order]
parts = {"ridge": slice(0, 30), "forest": slice(30, 60), "neighbours": slice(60, 90)}
models = {"ridge": Ridge(0.1), "forest": RandomForestRegressor(50), "neighbours": KNeighborsRegressor(3)}
agents = [cs.SklearnAgent(models[name], x[part], y[part], name) for name, part in parts.items()]
shared, target = x[90:240], (x[240:], y[240:])
result = cs.collaborate(agents, shared, method=cs.Consensus(warmup=1, lam=1.0), rounds=10, target=target)
scores = result.history.pivot(index="round", columns="agent", values="rmse_target")
alone = result.run.references["alone"].last_round().set_index("agent")["rmse_target"]
print(pd.DataFrame({"alone": alone, "together": scores.iloc[-1], "noise": [a.noise for a in agents]}).round(1))
