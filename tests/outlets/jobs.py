"""Jobs as a worker would hand them to an outlet."""

from __future__ import annotations

import itertools

from pywheel.jobs import Job, State

__all__ = ["a_job"]

_ids = itertools.count(1)


def a_job(body=b"body", *, id=None, key=None, **headers):
    """Return a running job; the underscores of headers' names are dashes."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    number = next(_ids) if id is None else id
    return Job(number, "t", body, 1, 1_700_000_000_000, State.RUNNING, key, headers=headers, claims=1, attempt=1)
