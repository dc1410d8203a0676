"""The page for operators: what there is, what is coming, and what can be done about it."""

from .routes import routes

__all__ = ["routes"]
