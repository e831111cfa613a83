"""What agents learn: one file per task. A task knows labels, predictions, losses and scores."""

from typing import TYPE_CHECKING

from consilience.base.registry import Registry

if TYPE_CHECKING:
    from consilience.tasks.protocol import Task

TASKS = Registry("task", "consilience.tasks", "consilience.tasks")


def task_named(task: "str | Task") -> "Task":
    """A task by its name; a task as it is."""
    if not isinstance(task, str):
        return task
    known: Task = TASKS.find(task)
    return known
