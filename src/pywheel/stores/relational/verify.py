"""What may be wrong with the tables, whichever database they are in."""

from __future__ import annotations

from typing import Final

from .. import verify as faults
from ..verify import Fault

__all__ = ["FAULTS", "Looks"]

Looks = tuple[tuple[Fault, str, tuple[str, ...]], ...]
"""In the order in which they are mended: a fault, the statement that finds it, and those that mend it."""

FAULTS: Final[Looks] = (
    (faults.NO_JOB, "find_no_job", ("mend_no_job_due", "mend_no_job_run", "mend_no_job_finished")),
    (faults.TWICE, "find_twice", ("mend_twice_due", "mend_twice_run", "mend_twice_finished")),
    (faults.NOWHERE, "find_nowhere", ("mend_nowhere",)),
    (faults.HISTORY, "find_history", ("mend_history",)),
    (faults.CLAIMS, "find_claims", ("mend_claims_due", "mend_claims_run", "mend_claims_finished")),
    (faults.LEASES, "find_leases", ("mend_leases",)),
    (faults.KEYS, "find_keys", ("mend_keys",)),
    (faults.KEYLESS, "find_keyless", ("mend_keyless", "mend_passed_due", "mend_passed_run")),
    (faults.INDEXES, "find_lanes", ("mend_lanes_gone", "mend_lanes")),
    (faults.COUNTS, "find_counts", ("mend_counts_gone", "mend_counts")),
    (faults.IDS, "find_ids", ("mend_ids",)),
    (faults.TOPICS, "find_topics", ()),
)
