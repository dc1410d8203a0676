"""Many threads at once, for tests of shared objects."""

import sys
import threading
from contextlib import contextmanager

from tests.jobs.waiting import LIMIT

GUARD = 30  # seconds after which a test fails instead of hanging; less than a driver's thread ever sleeps


@contextmanager
def restless():
    """Switch threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Crowd:
    """Threads that begin together, and whose errors and results are kept."""

    def __init__(self):
        self._threads = []
        self.results = {}
        self._start = threading.Event()

    def add(self, function, *arguments):
        """Have a thread call the function, and return the thread's number."""
        number = len(self._threads)
        thread = threading.Thread(target=self._run, args=(number, function, arguments), daemon=True)
        self._threads.append(thread)
        thread.start()
        return number

    def _run(self, number, function, arguments):
        self._start.wait()
        try:
            self.results[number] = function(*arguments)
        except BaseException as error:
            self.results[number] = error

    def start(self):
        self._start.set()

    def done(self):
        """Return how many have finished."""
        return len(self.results)

    def join(self):
        """Wait for all; return what they returned or raised, by number."""
        self.start()
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive(), "a thread hangs"
        return [self.results[number] for number in range(len(self._threads))]

    def run(self, *functions):
        """Run each function in a thread of its own; none may fail."""
        for function in functions:
            self.add(function)
        results = self.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def flush(driver):
    """Return when a driver with a thread has run all that was due before."""
    done = threading.Event()
    driver.call_later(0, done.set)
    assert done.wait(GUARD)


class Hold:
    """A callback that lets such a driver go on when the test says so."""

    def __init__(self, driver):
        self.entered, self.leave = threading.Event(), threading.Event()
        driver.call_later(0, self)
        assert self.entered.wait(LIMIT)

    def __call__(self):
        self.entered.set()
        assert self.leave.wait(LIMIT)
