"""Where jobs are kept: the contract that every store keeps, and the stores."""

from .contract import Filter, Span, Store
from .notifier import Hints, Member, Notifier
from .open import open

__all__ = ["Filter", "Hints", "Member", "Notifier", "Span", "Store", "open"]
