"""The tables. A live job is one row of `job`; one that has ended is one row of `finished`, with its last attempt.

`next` is the time from which a live job may be taken: its due time while it waits, the end of its lease while it runs.
The index (state, topic, priority, next, id) serves delivery, retries and lost leases. The state comes first in it, so
that a claim never looks at a running job, and a reader of running jobs never at a waiting one.

Times are wall clock in ms. The body comes last: SQLite reads the columns before it without its overflow pages.
"""

from __future__ import annotations

from typing import Final

from ...jobs.job import FIELDS, Field, Outcome, State

FINISHED: Final = (State.DONE, State.CANCELLED, State.DEAD)
"""The states that the column `finished.state` numbers."""
OUTCOMES: Final = (Outcome.DONE, Outcome.CANCELLED, Outcome.FAILED, Outcome.LOST, Outcome.RELEASED)
"""The outcomes that the column `outcome` numbers."""

ENDED: Final = 2
"""The offset of the numbers of finished states where a query reads both tables."""

TYPES: Final = {
    "id": "big", "job": "big", "topic": "int", "state": "small", "next": "big", "due": "big", "created": "big",
    "claims": "big", "unspent": "int", "lost": "small", "passed": "small", "error": "text", "started": "big",
    "worker": "int", "begun": "small", "backoff": "big", "body": "bytes", "ended": "big",
    "outcome": "small", "attempt": "int", "result": "bytes", "claim": "int", "delay": "big", "name": "name",
    "label": "binary", "lanes": "int",
    "live": "big", "done": "big", "cancelled": "big", "dead": "big", "value": "bytes", "until": "big",
    "at": "big", "nonce": "name", "ids": "text",
    **{field.name: "text" if field.kind == "json" else field.kind for field in FIELDS},
}  # fmt: skip
"""The kinds of the columns of tables and of lists of values. A dialect has a name for each kind."""


def _kept(field: Field) -> str:
    default = "" if field.default is None else f" NOT NULL DEFAULT {field.default}"
    return f"    {field.name} {{{TYPES[field.name]}}}{default},\n"


TABLES: Final = """
CREATE TABLE topic (
    id {serial},
    name {name} NOT NULL UNIQUE,
    paused {small} NOT NULL DEFAULT 0,
    lanes {int} NOT NULL DEFAULT 0      -- the priorities that its jobs ever had: bit p + 9 stands for p, none for 0
);
CREATE TABLE worker (
    id {serial},
    name {name} NOT NULL UNIQUE
);
CREATE TABLE job (
    id {big} {primary},
    topic {int} NOT NULL,
    state {small} NOT NULL DEFAULT 0,   -- 0 delayed, 1 running
    next {big} NOT NULL,                -- its due time, or the end of its lease
    created {big} NOT NULL,
    claims {int} NOT NULL DEFAULT 0,    -- the present one too; with the id, the receipt
    unspent {int} NOT NULL DEFAULT 0,   -- claims that do not count as attempts
    lost {small} NOT NULL DEFAULT 0,    -- what the last claim came to: lifecycle.NEVER_LOST, LOST_HELD, LOST_BEGUN
    passed {small} NOT NULL DEFAULT 0,  -- 1: it gave its key to a successor
{fields}    error {text},                       -- the last one
    due {big},                          -- of the claim under way, as are those that follow: when the job was due
    started {big},
    worker {int},
    begun {small} NOT NULL DEFAULT 0,   -- 0: held
    backoff {big},                      -- how long after the lease's end it is due again; NULL: no attempt is left
    body {bytes} NOT NULL
);
CREATE INDEX job_next ON job (state, topic, priority, next, id);
CREATE UNIQUE INDEX job_key ON job (topic, key) WHERE key IS NOT NULL AND passed = 0;
CREATE INDEX job_passed ON job (topic, key) WHERE key IS NOT NULL AND passed = 1;
CREATE TABLE finished (
    id {big} {ended},
    topic {int} NOT NULL,
    state {small} NOT NULL,             -- 0 done, 1 cancelled, 2 dead
    ended {big} NOT NULL,
    due {big} NOT NULL,
    created {big} NOT NULL,
    claims {int} NOT NULL DEFAULT 0,
    unspent {int} NOT NULL DEFAULT 0,
    lost {small} NOT NULL DEFAULT 0,
{fields}    started {big},                      -- of the last attempt, as are those that follow
    worker {int},
    attempt {int} NOT NULL,
    outcome {small} NOT NULL,
    error {text},
    result {bytes},
    body {bytes} NOT NULL
);
CREATE INDEX finished_ended ON finished (topic, state, ended, id);
CREATE INDEX finished_key ON finished (topic, key, id) WHERE key IS NOT NULL;
CREATE TABLE attempt (                  -- those before the present one, or before the last one
    job {big} NOT NULL,
    claim {int} NOT NULL,
    attempt {int} NOT NULL,
    started {big},
    ended {big} NOT NULL,
    outcome {small} NOT NULL,           -- 0 done, 1 cancelled, 2 failed, 3 lost, 4 released
    worker {int},
    error {text},
    PRIMARY KEY (job, claim)
){clustered};
CREATE TABLE nonce (                    -- puts that happen once: what they came to, in the order of their arrival
    id {serial},
    nonce {name} NOT NULL UNIQUE,
    at {big} NOT NULL,
    ids {text} NOT NULL                 -- JSON
);
CREATE INDEX nonce_at ON nonce (at);
CREATE TABLE note (                     -- small values by name, some until a time
    label {binary} {primary},           -- UTF-8: so they are ordered by their bytes, whatever is in them
    until {big},                        -- over from then on; NULL: never
    value {bytes} NOT NULL
);
CREATE INDEX note_until ON note (until) WHERE until IS NOT NULL;
""".replace("{fields}", "".join(map(_kept, FIELDS)))
