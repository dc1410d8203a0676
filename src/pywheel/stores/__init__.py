"""Where jobs are kept: the contract that every store keeps, and the stores."""

from .contract import Filter, Store
from .notifier import Hints, Member, Notifier
from .open import open
from .verify import Finding

__all__ = ["Filter", "Finding", "Hints", "Member", "Notifier", "Store", "open"]
