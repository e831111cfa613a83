"""Estimators of scikit-learn and our networks under short names; torch is imported when a network is made.

Forests and boosted trees count rows, and are made for few samples: repeated rows were as good
(docs/reference/notation.md).
"""

from typing import Any

from consilience.agents.models import Cost, estimator, network_in


def _forest_of_values() -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(30)


def _boosted_values() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(max_iter=50, min_samples_leaf=5, early_stopping=False)


def _nearest_values() -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(5)


@estimator("forest", Cost(550, refits=True), soft_labels="repeated", values=_forest_of_values)
def forest() -> Any:
    """Thirty trees."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(30)


@estimator("boosting", Cost(2000, refits=True), soft_labels="repeated", values=_boosted_values)
def boosting() -> Any:
    """Ten rounds of boosted trees, made for few samples."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=10,
        learning_rate=0.3,
        max_leaf_nodes=8,
        min_samples_leaf=5,
        max_features=0.3,
        l2_regularization=1.0,
        max_bins=32,
        early_stopping=False,
    )


@estimator("logistic", Cost(30, refits=True), soft_labels="repeated", private="linear")
def logistic() -> Any:
    """Logistic regression; a private one is a torch model of one layer."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000, tol=1e-3)


@estimator("neighbours", Cost(10, refits=True), soft_labels="drawn", values=_nearest_values)
def neighbours() -> Any:
    """The five nearest samples."""
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(5)


@estimator("polynomial", Cost(30, refits=True))
def polynomial(degree: int) -> Any:
    """Least squares on powers of the input up to `degree`: polynomial-4."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    return make_pipeline(PolynomialFeatures(degree), LinearRegression())


network_in(
    "consilience.agents.networks",
    {
        "linear": Cost(4, 0.004),
        "mlp": Cost(8, 0.006),
        "cnn": Cost(14, 0.07),
        "convnet": Cost(28, 0.03),
        "convnet-gn": Cost(28, 0.03),
        "resnet20": Cost(500, 1.0),
        "resnet20-gn": Cost(500, 1.0),
        "efficientnet": Cost(2000, 1.0),
        "efficientnet-gn": Cost(2000, 1.0),
    },
)
network_in("consilience.agents.scattering", {"scattering": Cost(10, 0.03), "wavelets": Cost(10, 0.03)})
