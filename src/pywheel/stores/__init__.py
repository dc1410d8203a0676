"""Where jobs are kept: the contract that every store keeps, and the stores."""

from .contract import Hints, Listener, Store
from .open import open

__all__ = ["Hints", "Listener", "Store", "open"]
