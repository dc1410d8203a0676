"""Processes on one store that are killed, stopped, told to go and forked at random; a ledger records them."""

import contextlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from pywheel import JobQueue, StoreError
from pywheel.jobs.commands import Put, SetNote
from pywheel.jobs.queries import ListTopics
from tests.isolated.child import environment
from tests.jobs.waiting import LIMIT, until
from tests.worker.ledger import ISOLATED, TOPICS, Pen, lines

__all__ = ["ServerStorm", "Storm"]

HERE = Path(__file__).parent
WORKERS = 4


def insist(call, meanwhile):
    """Call until the store can: who is stopped in a transaction keeps others from writing for longer than they wait.

    `meanwhile` is done between two calls: it may be what lets the stopped one go on.
    """
    while True:
        with contextlib.suppress(StoreError):
            return call()
        meanwhile()


class Storm:
    """The processes, and the events of their lives. All chance follows from the seed, except the machine's.

    With a `plant` of `tests.worker.plants`, or several after commas, the store of each of them has these faults.
    """

    def __init__(self, folder, seed, url, *, workers=WORKERS, producers=3, plant="", topics=TOPICS):
        self.draw = random.Random(seed)
        self.url = url
        self.folder = folder
        self.path = folder / "ledger.txt"
        self.topics = topics  # that producers put to
        self.variables = {"LEDGER": str(self.path), "LEDGER_PLANT": plant}
        self.pen = Pen(self.path, "storm")
        self.queue = JobQueue(self.url)
        self.processes = []
        self.serial = 0
        self.later = []  # (when, what): what is to be done in some seconds
        self.calm = False
        self.watchdog = self.start("ledger_watchdog.py", url=False)
        self.producers = [self.producer() for _ in range(producers)]
        self.workers = [self.worker() for _ in range(workers)]
        self.consumer = self.reserver()

    # ---- processes --------------------------------------------------------------------------------------------------

    def start(self, script, *arguments, url=True):
        command = [sys.executable, HERE / script, *([self.url] if url else []), self.path, *map(str, arguments)]
        with Path(self.folder, "errors.txt").open("ab") as errors:
            process = subprocess.Popen(command, env=environment(**self.variables), stderr=errors)
        self.processes.append(process)
        return process

    def name(self):
        self.serial += 1
        return f"p{self.serial}"

    def producer(self):
        return self.start("ledger_producer.py", self.name(), self.draw.randrange(10**6), *self.topics)

    def tell(self, producer, number):
        """Send a producer a signal, once it would not die of it."""
        until(lambda: any(line["pid"] == producer.pid for line in lines(self.path)["comes"]))
        producer.send_signal(number)

    def worker(self, topics=None, grace=None, at_once=None):
        """Start a worker; every topic is somebody's most of the time, and in the end everybody's."""
        if self.calm:
            topics = sorted({topic.name for topic in self.queue.store.ask(ListTopics())} | {*TOPICS} - {"hand"})
        topics = topics or self.draw.sample(TOPICS[:-1], self.draw.randint(1, 4))
        if self.draw.random() < 0.2:
            topics = [*topics, "hand"]
        grace = self.draw.choice([0.2, 1, 5]) if grace is None else grace
        numbers = {ISOLATED: [1, 2]}
        each = [f"{topic}={at_once or self.draw.choice(numbers.get(topic, [1, 2, 4, 8]))}" for topic in topics]
        return self.start("ledger_worker.py", self.name(), grace, *each)

    def reserver(self):
        return self.start("ledger_worker.py", self.name(), "reserve", "hand", self.draw.randrange(10**6))

    def replace(self, process):
        self.workers.remove(process)
        self.workers.append(self.worker())

    # ---- what may happen --------------------------------------------------------------------------------------------

    def kill(self):
        process = self.draw.choice(self.workers)
        self.pen.note("kills", who=process.pid)
        process.kill()
        process.wait()
        self.replace(process)

    def kill_several(self):
        for _ in range(2):
            self.kill()

    def stop(self):
        """Stop a worker for longer than a lease, or for less."""
        process = self.draw.choice(self.workers)
        since = self.pen.note("stops", who=process.pid)
        process.send_signal(signal.SIGSTOP)
        self.workers.remove(process)

        def go_on():
            process.send_signal(signal.SIGCONT)
            self.pen.note("continues", who=process.pid, since=since)
            self.workers.append(process)

        self.later.append((time.monotonic() + self.draw.choice([0.5, 2, 3.5]), go_on))

    def drain(self):
        process = self.draw.choice(self.workers)
        self.pen.note("drains", who=process.pid)
        process.send_signal(signal.SIGTERM)
        self.replace(process)

    def pause(self):
        topic = self.draw.choice(TOPICS)
        asked = self.pen.note("pauses", topic=topic)
        if not insist(lambda: self.queue.topics.pause(topic), self.look_after):
            return  # it is paused already
        paused = time.time() * 1000

        def resume():
            resumed = time.time() * 1000
            insist(lambda: self.queue.topics.resume(topic), self.look_after)
            self.pen.note("resumes", topic=topic, asked=asked, paused=paused, resumed=resumed)

        self.later.append((time.monotonic() + self.draw.uniform(0.2, 2), resume))

    def kill_producer(self):
        process = self.producers.pop(0)
        process.kill()
        process.wait()
        self.producers.append(self.producer())

    def fork(self):
        self.tell(self.draw.choice(self.producers), signal.SIGUSR1)

    def poison(self):
        """Put a job that kills the process that handles it."""
        self.put(self.draw.choice(TOPICS[:-1]), self.draw.choice(["exit", "kill"]), max_attempts=3)

    def put(self, topic, do, **options):
        self.serial += 1
        at = time.time() * 1000
        facts = {"what": "put", "n": self.serial, "at": at, "jobs": [[self.serial, 0]]}
        self.pen.note("ask", **facts)
        job = self.queue.job(topic, {"by": "storm", "n": facts["n"], "do": do}, **options)
        [[id]] = insist(lambda: self.queue.store.apply([Put((job,), f"storm-{facts['n']}")]), self.look_after)
        self.pen.note("told", outcome=id, **facts)

    def new_topic(self):
        """A topic comes that nobody has handled, then one who does."""
        topic = f"new-{self.serial}"
        for _ in range(5):
            self.put(topic, "quick")
        process = self.worker([topic, *TOPICS[:2]])
        self.workers.append(process)
        oldest = self.workers[0]
        self.pen.note("drains", who=oldest.pid)
        oldest.send_signal(signal.SIGTERM)
        self.workers.remove(oldest)

    def busy(self):
        """Four others use the machine."""
        self.pen.note("busy")
        for _ in range(4):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.processes.append(process)
            self.later.append((time.monotonic() + 3, process.kill))

    def kill_consumer(self):
        self.pen.note("kills", who=self.consumer.pid)
        self.consumer.kill()

    def harm_the_store(self):
        """Somebody tidies up: nothing in these files outlasts its use."""
        self.pen.note("deletes")
        for path in self.folder.glob("jobs.db-*"):
            if not path.name.endswith(("-wal", "-shm", "-journal")):
                path.unlink(missing_ok=True)

    # ---- the course of it -------------------------------------------------------------------------------------------

    def rounds(self, count):
        often = [self.kill] * 4 + [self.stop] * 3 + [self.drain] * 3 + [self.pause] * 2 + [self.poison] * 2
        rare = [self.kill_several, self.kill_producer, self.fork, self.new_topic, self.busy, self.kill_consumer]
        actions = [*often, *rare, self.harm_the_store]
        deck = []
        for _ in range(count):
            if not deck:
                deck = self.draw.sample(actions, len(actions))  # all of them in turn, in any order
            self.let_pass(self.draw.uniform(0.3, 2.5))
            deck.pop()()
        self.let_pass(1)

    def let_pass(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look_after()
            time.sleep(0.02)

    def look_after(self):
        """Do what is to be done by now, and replace who died."""
        now = time.monotonic()
        for entry in [entry for entry in self.later if entry[0] <= now]:
            if entry in self.later:  # else it was done while another one waited
                self.later.remove(entry)
                entry[1]()
        for process in [process for process in self.workers if process.poll() is not None]:
            self.replace(process)
        if self.consumer.poll() is not None:
            self.consumer = self.reserver()

    def calm_down(self):
        """Let all that is left be done: nothing happens any more, and somebody handles every topic."""
        while self.later:
            self.let_pass(0.1)
        for producer in self.producers:
            self.tell(producer, signal.SIGTERM)
        for producer in self.producers:
            assert producer.wait(60) == 0
        self.calm = True
        self.workers.append(self.worker())
        end = time.monotonic() + LIMIT
        while any(count.delayed or count.running for count in self.queue.topics.counts().values()):
            assert time.monotonic() < end, f"jobs are left: {self.queue.topics.counts()}"
            self.time_a_commit()
            self.let_pass(0.1)

    def time_a_commit(self):
        """Note how long one takes, as the producers do by what they ask."""
        at = time.time() * 1000
        insist(lambda: self.queue.store.apply([SetNote("storm", b"")]), self.look_after)
        self.pen.note("told", what="note", at=at, outcome=None)

    def end(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self.queue.close()


class ServerStorm(Storm):
    """The same on a server, which dies too, and is cut off."""

    def __init__(self, folder, seed, server, proxy):
        self.server, self.proxy = server, proxy
        super().__init__(folder, seed, server.url(via=proxy))

    def harm_the_store(self):
        since = time.time() * 1000
        how = self.draw.choice([self.kill_server, self.stop_server, self.cut_off])
        how()
        self.pen.note("away", since=since, who=how.__name__)

    def kill_server(self):
        self.server.kill()
        time.sleep(self.draw.choice([0, 1]))
        self.server.start()

    def stop_server(self):
        self.server.pause()
        time.sleep(self.draw.choice([0.3, 2]))
        self.server.resume()

    def cut_off(self):
        self.proxy.cut()
        time.sleep(self.draw.choice([0, 1]))
        self.proxy.heal()

    def rounds(self, count):
        for _ in range(0, count, 4):  # it is the server that is on trial here
            super().rounds(min(count, 4))
            self.harm_the_store()
