"""A wheel with timers everywhere, and calls that get in the way of another call."""


class World:
    """A wheel, and what became of each of its timers."""

    def __init__(self, wheel_class):
        self.wheel = wheel_class(1000)
        self.names, self.expired, self.cancelled, self.cleared = [], [], [], False
        self.handles = {name: self.schedule(1000 + name % 4, name) for name in range(12)}
        self.expire(1001, 3)
        for name, distance in enumerate([-5, 0, 1, 2, 300, 300, 600, 70_000, 70_001, 2**24, 2**40], start=12):
            self.handles[name] = self.schedule(1002 + distance, name)

    def schedule(self, deadline, name):
        self.names.append(name)
        return self.wheel.schedule(deadline, name)

    def deadline(self, name):
        return self.wheel.deadline(self.handles[name])

    def expire(self, now, limit=None):
        """Advance; what is no name is dropped."""
        self.expired += [item for item in self.wheel.advance(now, limit) if isinstance(item, int)]

    def cancel(self, names):
        for name in names:
            if self.wheel.cancel(self.handles[name]):
                self.cancelled.append(name)

    def clear(self):
        self.cleared = True
        self.wheel.clear()

    def start_again(self, now):
        self.cleared = True
        self.wheel.__init__(now)

    def balance(self):
        """Each timer expired, was cancelled or is pending: one of these, once, unless the wheel was cleared."""
        self.wheel._check()
        pending = [self.wheel.get(handle) for handle in self.wheel]
        assert len(pending) == len(self.wheel)
        seen = sorted(self.expired + self.cancelled + pending)
        assert len(seen) == len(set(seen)), "a timer came out twice"
        if not self.cleared:
            assert seen == sorted(self.names), "a timer was lost"
        assert sorted(self.wheel.advance(2**63 - 1)) == sorted(pending)


def schedule(world):
    for name, deadline in enumerate([0, 1003, 1300, 2**30, 2**51], start=200 + len(world.names)):
        world.handles[name] = world.schedule(deadline, name)


def reschedule(world):
    for name in (4, 13, 14, 15, 18):
        world.wheel.reschedule(world.handles[name], 71_001)


def cancel(world):
    world.cancel([4, 5, 13, 14, 15, 18, 19])


def advance(world):
    world.expire(world.wheel.now + 1, 5)
    world.expire(max(world.wheel.now, 1400))


def clear(world):
    world.clear()


MEDDLING = [schedule, reschedule, cancel, advance, clear]


def meddle(world, action):
    world.wheel._check()
    action(world)
    world.wheel._check()
