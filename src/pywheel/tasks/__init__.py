"""Tasks: typed functions whose calls are jobs. A put takes the function's arguments, and the job's body holds them."""

from .providers import provided
from .task import AsyncTask, Task

__all__ = ["AsyncTask", "Task", "provided"]
