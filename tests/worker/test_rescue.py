"""An obstacle to one worker or one job delays no other: step by step, in the world of the simulation."""

from pywheel.jobs import State
from tests.worker.simulation import SimulatedWorker, World


class StillWorld(World):
    """No chance: handlers take as long as is said, and nothing happens by itself."""

    def __init__(self, *topics, takes=0.0, url="memory:"):
        super().__init__(0, url)
        for worker in self.workers:
            worker.notifier.close()
        self.takes = takes
        self.workers = [SimulatedWorker(self, each) for each in topics]

    def started(self, lease, worker):
        super().started(lease, worker)
        return self.takes

    def fails(self):
        return False

    def some_topics(self):
        return ("a",)

    def account(self, seconds):
        """The tests say themselves what they wait for."""

    def end(self):
        for worker in self.workers:
            worker.notifier.close()
        self.store.close()

    def put_some(self, number):
        return self.queue.put_many(self.queue.job("a") for _ in range(number))

    def undone(self, ids):
        return [id for id in ids if self.queue.get(id).state is not State.DONE]


def test_another_worker_has_within_a_second_what_there_is_no_place_for():
    world = StillWorld("a", takes=1_000)
    world.put_some(3)
    world.pass_time(1)  # they hang
    world.takes = 0
    world.workers.append(SimulatedWorker(world, "a"))
    world.pass_time(1)
    put = world.put_some(16)
    world.pass_time(1)
    assert world.undone(put) == []


def test_a_worker_that_is_behind_when_the_clock_is_set_back_is_helped_all_the_same():
    world = StillWorld("a", takes=1_000)
    world.put_some(3 + 10)
    world.pass_time(1)  # three hang, and the others wait
    world.clock.step(-3_600)
    waiting = world.put_some(10)
    world.pass_time(0.1)
    world.takes = 0
    world.workers.append(SimulatedWorker(world, "a"))
    world.pass_time(3)
    assert world.undone(waiting) == []


def test_jobs_whose_owner_stands_still_wait_a_second_and_not_until_it_is_taken_for_gone(server):
    world = StillWorld("a", "a", "a", url=server.url())
    world.pass_time(3)
    world.workers[0].stopped_until = float("inf")
    put = world.put_some(16)
    world.pass_time(1.6)
    assert world.undone(put) == []
    soon = [world.queue.put("a", delay=0.5) for _ in range(16)]
    world.pass_time(0.5 + 1.1)  # they are known to come, and looked after half a second later
    assert world.undone(soon) == []
    world.end()


def test_a_job_that_kills_its_process_takes_no_neighbour_with_it_however_long_that_one_runs():
    """All were hit by the first kill. Whoever is hit again is tried for longer, until it runs to its end alone."""
    world = StillWorld("a", takes=1.9)
    long = world.put_some(2)
    world.turn()
    world.put_poison("a")
    world.pass_time(60)
    assert world.poisons
    assert world.undone([*long, *world.poisons]) == [*world.poisons]
    assert max(world.hits.values()) <= 3
