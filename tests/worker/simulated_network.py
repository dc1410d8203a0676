"""A network between the simulated workers and their store: calls take long, arrive late, or arrive twice."""

from pywheel import StoreAway
from pywheel.jobs.commands import Ack, Begin, Cancel, Claim, Claimed, Expire, Nack, Put, Release, Touch
from pywheel.testing import FaultyStore
from tests.worker.simulated_worker import Killed

__all__ = ["Network"]

TAKES = (0.05, 0.3, 0.8, 3.0)  # seconds
BEHIND = (0.0, 0.2, 1.5, 8.0)  # seconds after its time that a call arrives
# Claims and puts carry numbers: a server knows them again.
REPEATED = (Ack, Nack, Release, Touch, Begin, Cancel, Expire)
LATE = (*REPEATED, Claim)


class Network(FaultyStore):
    """A store at the other end of a network. The world goes on while a caller waits for an answer."""

    def __init__(self, store, world):
        super().__init__(store)
        self._world = world
        self._random = world.random
        self._under_way = []  # (when, commands)
        self.bad = 0.0
        """The part of the calls of which each of these things happens."""

    def _now(self):
        return self.bad and self._random.random() < self.bad

    def apply(self, commands):
        """Apply commands: at once, later than the caller waits, twice, or in a time that others use."""
        if self._now() and all(map(late, commands)):
            self._send(commands)
            self._wait(3.0)
            raise StoreAway("no answer came")
        if self._now():
            self._wait(self._random.choice(TAKES))
        outcomes = self.inner.apply(commands)
        again = [command for command in commands if isinstance(command, REPEATED)]
        if again and self._now():
            self._send(again)
        if self._now():
            self._wait(self._random.choice(TAKES))
        return outcomes

    def _wait(self, seconds):
        caller = self._world.caller
        self._world.doubt()
        self._world.meanwhile(seconds)
        self._world.doubt()
        if caller in self._world.killed:
            raise Killed

    def _send(self, commands):
        """Let commands arrive later: a cancel that was refused may be granted then."""
        self._world.unsure.update(command.ref for command in commands if isinstance(command, Cancel))
        self._under_way.append((self._world.clock.time() + self._random.choice(BEHIND), commands))

    def arrive(self):
        """Let arrive what is to by now, in any order."""
        now = self._world.clock.time()
        arrived = [call for call in self._under_way if call[0] <= now]
        self._under_way = [call for call in self._under_way if call[0] > now]
        self._random.shuffle(arrived)
        for _, commands in arrived:
            for outcome in self.inner.apply(commands):
                if isinstance(outcome, Claimed):
                    self._world.unanswered.update(job.id for job in outcome.jobs)
            self._world.doubt()


def late(command):
    """Whether the world expects a command that failed to happen later: a replacement is looked up at once."""
    return isinstance(command, LATE) or (isinstance(command, Put) and all(job.key is None for job in command.jobs))
