"""Loggers: a callback that writes to a tracking tool."""

from consilience.runtime.loggers import MLflow as MLflow
from consilience.runtime.loggers import TensorBoard as TensorBoard
from consilience.runtime.loggers import WandB as WandB
