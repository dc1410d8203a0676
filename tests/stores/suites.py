"""Parts and ways of the suite of stores."""

import tempfile

from pywheel.stores import open
from pywheel.testing import suite
from pywheel.testing.suite.edits import EditTests
from pywheel.testing.suite.views import ViewTests
from pywheel.testing.suite.workers import WorkerTests


class Wakeups(WorkerTests):
    """Those of its tests in which somebody is woken, for a store that does only this in another way."""

    test_an_edit_is_told = EditTests.test_a_worker_is_told_of_a_job_that_is_due_sooner_by_an_edit
    test_a_hint_says_the_priority = suite.PriorityTests.test_a_hint_says_the_priority


class Named(
    suite.JobTests,
    suite.OnceTests,
    suite.KeyTests,
    suite.DedupeTests,
    suite.ExpectTests,
    suite.ResultTests,
    suite.ScheduleTests,
    suite.ModelTests,
    WorkerTests,
    ViewTests,
    EditTests,
):
    """Those in which a command names a job, or one is opened: a store in front of another hands on the rest."""


class Writing(
    suite.NoteTests,
    suite.RewriteTests,
    suite.ClaimTests,
    suite.HeldTests,
    suite.LeaseTests,
    suite.PriorityTests,
    suite.LimitTests,
    suite.ImportTests,
    Named,
):
    """All but pages, numbers for people and bad arguments: a file reads and refuses those as memory does."""


class Reopened:
    """Opens the store anew after every operation, or so many: what writes on files, random operations on servers."""

    every = 1
    operations = 0

    def reopen(self):
        self.operations += 1
        if self.operations % self.every == 0:
            self.store.close()
            self.store = open(self.url, clock=self.clock)


class InFolder:
    """Keeps the stores of a test in a folder of its own."""

    def setup_method(self, method):
        self.folder = tempfile.TemporaryDirectory()
        self.made = 0
        super().setup_method()

    def teardown_method(self, method):
        super().teardown_method()
        self.folder.cleanup()

    def place(self):
        """Return the path of a file that is not there yet."""
        self.made += 1
        return f"{self.folder.name}/{self.made}.db"
