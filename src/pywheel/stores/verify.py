"""Faults of stores and their remedies, in the same words for every store."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

EXAMPLES: Final = 5


class Finding(NamedTuple):
    """A fault that was found in a store."""

    what: str
    number: int
    examples: tuple[int | str, ...]  # some ids, or names of topics, or a database's words about its file
    remedy: str  # the result of a repair; "" if there is none
    repaired: bool = False


class Fault(NamedTuple):
    """A fault that a store may have."""

    what: str
    remedy: str

    def found(self, places: Collection[int | str]) -> list[Finding]:
        """Return the finding of this fault in these places, with the first ones as examples; [] for none."""
        return [Finding(self.what, len(places), tuple(places)[:EXAMPLES], self.remedy)] if places else []


def verified(find: Callable[[], list[Finding]], mend: Callable[[], object] | None) -> list[Finding]:
    """Return the faults. With `mend` they are repaired, and looked for again: those found again are left."""
    found = find()
    if not found or mend is None:
        return found
    mend()
    left = {finding.what: finding for finding in find()}
    return [
        *(finding if finding.what in left else finding._replace(repaired=True) for finding in found),
        *(left[what] for what in left.keys() - {finding.what for finding in found}),
    ]


NOWHERE: Final = Fault(
    "jobs that are neither delayed, running nor finished", "delayed again, with all their attempts, due at once"
)
TWICE: Final = Fault("jobs in more than one place", "kept where they got furthest: finished, or else running")
NO_JOB: Final = Fault("places of jobs that are not there", "dropped")
TOPICS: Final = Fault("jobs of a topic that is not there", "")
LANES: Final = Fault("jobs with a priority that their topic does not know", "found again by claims")
HEADERS: Final = Fault("jobs whose headers cannot be read", "")
TIMES: Final = Fault("jobs whose due time, or end of lease, is no number", "")
LEASES: Final = Fault("leases without their claim", "made void: the job is due again when the lease is over")
CLAIMS: Final = Fault("jobs with more history than claims", "claimed behind it, with the attempts they had")
KEYS: Final = Fault("keys that no live job has", "dropped")
KEYLESS: Final = Fault(
    "live jobs without their key", "given it; where another live job has it, they count as having handed it on"
)
COUNTS: Final = Fault("topics whose jobs are counted wrongly", "counted anew")
HISTORY: Final = Fault("jobs that are not there, with history", "their history dropped")
INDEXES: Final = Fault("places in an index that are wrong", "the index made anew from the jobs")
ROWS: Final = Fault("tables without the row that they must have", "given it anew, made from the jobs that are there")
IDS: Final = Fault("jobs with ids that have not been given out", "counted as given out")
NOTES: Final = Fault("notes whose places in an index are wrong", "the index made anew from the notes")
