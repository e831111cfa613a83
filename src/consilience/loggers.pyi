"""Loggers: a callback that writes to a tracking tool."""

from consilience.runtime.loggers.mlflow import MLflow as MLflow
from consilience.runtime.loggers.tensorboard import TensorBoard as TensorBoard
from consilience.runtime.loggers.wandb import WandB as WandB
