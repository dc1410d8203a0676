"""The supervisor of worker processes, and the program that each of them runs."""

from .supervisor import Supervisor

__all__ = ["Supervisor"]
