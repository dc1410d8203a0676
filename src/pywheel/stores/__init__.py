"""The stores of jobs, and their common contract."""

from ..jobs.queries import Filter, Member
from .contract import Store
from .notifier import Hints, Notifier
from .open import open
from .verify import Finding

__all__ = ["Filter", "Finding", "Hints", "Member", "Notifier", "Store", "open"]
