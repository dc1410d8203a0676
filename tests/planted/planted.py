"""The product with one fault each, and for each fault a test that must find it.

A fault is planted around a visible part of the product: a method of a class, a command of a store, a function with one
meaning. Each stands for a mistake that somebody may make, and none changes how anything is called.
"""

from tests.planted import of_stores, of_the_service, of_the_wheel, of_timers, of_workers
from tests.planted.how import FAULTS

__all__ = ["FAULTS", "ROOMS"]

ROOMS = (of_the_wheel, of_timers, of_stores, of_workers, of_the_service)
"""Where the faults stand: each puts its own into FAULTS, by name."""
