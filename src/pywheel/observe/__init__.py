"""Who looks on: log lines and metrics."""

from .metrics import Metrics, Silent, Tally

__all__ = ["Metrics", "Silent", "Tally"]
