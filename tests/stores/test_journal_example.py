"""The store of examples/journal_store.py, made as others make theirs, keeps the contract and is found by its scheme."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import NotAStore, StoreBusy, StoreCorrupt, StoreFull
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.stores.address import Address
from pywheel.testing import StoreSuite
from tests.stores.files import put
from tests.stores.suites import InFolder

pytest.importorskip("fcntl", reason="it locks its file by flock")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ENTRY_POINTS = "[pywheel.stores]\njournal = journal_store:JournalStore\n"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """Install it, as a distribution of its own."""
    site = tmp_path_factory.mktemp("site")
    about = site / "journal_store-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: journal-store\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(site), str(EXAMPLES)])
        yield


@pytest.mark.stress
class TestJournal(InFolder, StoreSuite):
    """Opened anew after each of the first operations, then after every tenth: it reads the whole journal then."""

    def setup_method(self, method):
        super().setup_method(method)
        self.operations = 0

    def make_store(self, clock):
        self.url = f"journal://{self.place()}"
        return open(self.url, clock=clock)

    def reopen(self):
        self.operations += 1
        if self.operations > 10 and self.operations % 10:
            return
        self.store.close()  # and its class is known: `open` would look through all that is installed, each time
        self.store = type(self.store)(Address(self.url), clock=self.clock, create=True)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.journal"


@pytest.fixture
def journal(file):
    with open(f"journal://{file}") as store:
        yield store


def test_the_documents_show_this_very_entry_point():
    group, line = ENTRY_POINTS.split("\n")[:2]
    name, _, value = line.partition(" = ")
    shown = f'[project.entry-points."{group[1:-1]}"]\n{name} = "{value}"'
    for place in (EXAMPLES / "journal_store.py", EXAMPLES.parent / "docs" / "stores.md"):
        assert shown in place.read_text().replace("\n    ", "\n")


def test_a_line_that_a_crash_left_unfinished_was_no_change(file):
    with open(f"journal://{file}") as store:
        first = put(store)
        whole = file.stat().st_size
        put(store)
    content = file.read_bytes()
    for end in (0, 5, *range(whole, len(content))):
        file.write_bytes(content[:end])
        with type(store)(Address(f"journal://{file}"), clock=None, create=True) as again:
            there = [again.ask(GetJob(id)) is not None for id in (first, first + 1)]
            assert there == [end >= whole, False]
            assert put(again) == (first + 1 if end >= whole else first)


def test_a_damage_before_the_end_is_named(file):
    with open(f"journal://{file}") as store:
        for _ in range(3):
            put(store)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="is damaged after"):
        open(f"journal://{file}")


def test_a_full_disk_changes_nothing(journal, file, monkeypatch):
    put(journal)
    before = file.read_bytes()
    pwrite = os.pwrite

    def full(descriptor, data, at):
        pwrite(descriptor, data[:7], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.pwrite", full)
        with pytest.raises(StoreFull, match="No space left on device"):
            put(journal)
    assert file.read_bytes() == before
    assert journal.ask(CountJobs())["t"].delayed == 1
    put(journal)
    assert journal.ask(CountJobs())["t"].delayed == 2


@pytest.mark.stress
def test_it_is_one_process_s_at_a_time(journal, file):
    code = f"from pywheel.stores import open; open('journal://{file}')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[-2:])}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stderr
    assert f"StoreBusy: journal://{file} is open in another process" in said
    with pytest.raises(StoreBusy):
        open(f"journal://{file}")


def test_what_is_no_journal_is_refused(file):
    with pytest.raises(NotAStore, match="No such file"):
        open(f"journal://{file}", create=False)
    file.write_text("something else\n" * 9)
    with pytest.raises(NotAStore, match="holds something else"):
        open(f"journal://{file}")
    with pytest.raises(NotAStore, match="there is no option 'sync'"):
        open(f"journal://{file}?sync=off")
