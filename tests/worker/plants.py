"""Stores with a planted fault, to see that the checks notice it."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from pywheel.jobs import State
from pywheel.jobs.commands import Ack, Cancel, Claim, Claimed, Delete, Edit, Put, Reserve
from pywheel.jobs.queries import Filter, GetJob, ListJobs
from pywheel.stores.sqlite import page
from pywheel.testing import FaultyStore

__all__ = ["PLANTS", "Planted"]

EARLY = 400  # ms
OFTEN = 3  # the number of commands of a kind of which one goes wrong
ALL_READY = "all are ready"  # a file beside the ledger, from when a process may be stopped: others have room


class Planted(FaultyStore):
    """A store that does one thing wrong now and then: `plant` is a name of `PLANTS`."""

    def __init__(self, store, plant):
        super().__init__(store)
        self._plant = PLANTS[plant]()

    def apply(self, commands):
        """Apply what the plant makes of the commands; return what it makes of the outcomes."""
        asked = [self._plant.asks(self.inner, command) for command in commands]
        outcomes = iter(self.inner.apply([command for command in asked if command is not None]))
        return [
            self._plant.told(self.inner, command, None if sent is None else next(outcomes))
            for command, sent in zip(commands, asked, strict=True)
        ]


class Plant:
    """One fault: another command than was asked for, or another outcome than there was."""

    def __init__(self):
        self._count = 0

    def now(self):
        """Return whether it is time to go wrong."""
        self._count += 1
        return self._count % OFTEN == 0

    def asks(self, store, command):
        """Return what is applied instead of a command; None: nothing."""
        return command

    def told(self, store, command, outcome):
        """Return what is told instead of an outcome."""
        return outcome


class ClaimGivenTwice(Plant):
    def told(self, store, command, outcome):
        if isinstance(outcome, Claimed) and outcome.begun and self.now():
            return outcome._replace(jobs=[outcome.jobs[0], *outcome.jobs], begun=outcome.begun + 1)
        if isinstance(command, Reserve) and outcome and self.now():
            return [outcome[0], *outcome]
        return outcome


class AckDropped(Plant):
    def asks(self, store, command):
        return None if isinstance(command, Ack) and self.now() else command

    def told(self, store, command, outcome):
        return True if isinstance(command, Ack) else outcome


class OldBody(Plant):
    """A put that replaces leaves the body that was there, and so does an edit."""

    def __init__(self):
        super().__init__()
        self._bodies = {}

    def asks(self, store, command):
        if isinstance(command, Put):
            jobs = [self._old(job) if job.replace else job for job in command.jobs]
            self._bodies |= {(job.topic, job.key): job.body for job in jobs if job.key}
            return replace(command, jobs=tuple(jobs))
        return replace(command, body=None) if isinstance(command, Edit) else command

    def _old(self, job):
        return job._replace(body=self._bodies.get((job.topic, job.key), job.body))


class LimitPassed(Plant):
    def asks(self, store, command):
        if isinstance(command, Claim | Reserve) and command.policy.limits is not None:
            return replace(command, policy=command.policy._replace(limits=None))
        return command


class Early(Plant):
    def asks(self, store, command):
        if isinstance(command, Put):
            return replace(command, jobs=tuple(map(self._sooner, command.jobs)))
        return command

    def _sooner(self, job):
        return job if job.delay is None else job._replace(delay=max(job.delay - EARLY, 0))


class CancelDropped(Plant):
    """A cancel says what is so, and does nothing."""

    def asks(self, store, command):
        return None if isinstance(command, Cancel) else command

    def told(self, store, command, outcome):
        if isinstance(command, Cancel):
            job = store.ask(GetJob(command.ref))
            return job is not None and job.state == "delayed"
        return outcome


class PutLost(Plant):
    def told(self, store, command, outcome):
        if isinstance(command, Put) and isinstance(outcome, list) and outcome and self.now():
            store.apply([Delete(outcome[-1])])
        return outcome


class OrderBroken(Plant):
    """A fault: the jobs of one claim come with the lowest priority first."""

    def told(self, store, command, outcome):
        if isinstance(outcome, Claimed):
            jobs, begun = outcome.jobs, outcome.begun
            return outcome._replace(jobs=[*sorted(jobs[:begun], key=_priority), *jobs[begun:]])
        return sorted(outcome, key=_priority) if isinstance(command, Reserve) else outcome


class PriorityIgnored(Plant):
    """A fault: due jobs of the lowest priority are claimed before the others."""

    def asks(self, store, command):
        if isinstance(command, Claim) and not command.ids:
            due = store.ask(ListJobs(Filter(command.topic, State.DELAYED, due_until=store.clock.wall())))
            lowest = tuple(job.id for job in due if job.priority == min(map(_priority, due)))
            return replace(command, ids=lowest, limit=0) if len(lowest) < len(due) else command
        return command


class StoppedInTurn(Plant):
    """No fault of the store: a process that claims is stopped in its turn to write, outside a transaction. Once."""

    def told(self, store, command, outcome):
        ledger = os.environ["LEDGER"]
        once, ready = (Path(ledger).with_name(name) for name in ("stopped", ALL_READY))
        if not isinstance(outcome, Claimed) or once.exists() or not ready.exists():
            return outcome
        once.touch()
        from tests.worker.ledger import Pen  # which imports this

        pen, me = Pen(ledger, "plant"), os.getpid()
        subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {me}"])
        since = pen.note("stops", who=me)
        store._alone(lambda connection: os.kill(me, signal.SIGSTOP))
        pen.note("continues", who=me, since=since)
        return outcome


class TurnWaitedFor(StoppedInTurn):
    """And all others wait for it."""

    def __init__(self):
        super().__init__()
        page._STALLED = 1_000, 1_000


def _priority(job):
    return job.priority


PLANTS = {
    "claim given twice": ClaimGivenTwice,
    "ack dropped": AckDropped,
    "old body": OldBody,
    "limit passed": LimitPassed,
    "early": Early,
    "cancel dropped": CancelDropped,
    "put lost": PutLost,
    "order broken": OrderBroken,
    "priority ignored": PriorityIgnored,
    "stopped in turn": StoppedInTurn,
    "turn waited for": TurnWaitedFor,
}
