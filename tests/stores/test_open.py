"""Addresses of stores: their stores, and refused addresses."""

import os

import pytest

from pywheel import BadAddress, NotAStore, StoreError, StoreReadOnly
from pywheel.cli.options import absolute
from pywheel.jobs.queries import GetJob
from pywheel.stores import open
from pywheel.stores.sqlite.store import SqliteStore
from tests.stores.files import put
from tests.stores.processes import as_root, let_in, process


@pytest.mark.parametrize(
    "url",
    [
        "", "jobs.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite://[x", "sqlite:///a%00b", "sqlite:///:memory:",
        "sqlite:///\ud800.db", "ftp://localhost", None, 7,
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(NotAStore):
        open(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:rel.db", "did you mean 'sqlite:///rel.db'"),
        ("sqlite://rel.db", "did you mean 'sqlite:///rel.db'"),
        ("sqlite:/abs.db", "did you mean 'sqlite:////abs.db'"),
        ("sqlite://host/jobs.db", "did you mean 'sqlite:///host/jobs.db'"),
        ("sqlite:///{}/a.db?mode=ro&x=1", r"no option 'mode', 'x'.*%3F"),
        ("sqlite:///{}/a#1.db", "write # as %23"),
        ("postgre://h/d", "did you mean postgres:"),
        ("postgresql+psycopg://h/d", "did you mean postgresql:"),
        ("sqlit:///x", "did you mean sqlite:"),
        ("ftp://h/d", r"redis://host/0 or memory:"),
    ],
)
def test_a_wrong_address_is_refused_with_what_is_right_and_nothing_is_made(tmp_path, monkeypatch, url, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStore, match=said):
        open(url.format(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["sqlite:///a.db\n", "sqlite:///a\tb.db", "memory:\n", "postgresql://u:s3cret@h/d\r\n"])
def test_an_address_with_a_control_character_is_refused_and_nothing_is_made(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadAddress, match=r"has a control character.*%0A") as refused:
        open(url)
    assert "s3cret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?.db", "a#1.db", "50%.db", "a%20b.db", "ä\n.db", b"\xff.db"], ids=ascii)
def test_the_url_of_a_store_opens_the_same_file(tmp_path, name):
    with SqliteStore(os.path.join(tmp_path, os.fsdecode(name))) as store:  # noqa: PTH118
        id = put(store)
        with open(store.url) as again:
            assert again.path == store.path
            assert again.ask(GetJob(id)).id == id


def test_without_create_a_missing_and_an_empty_file_are_refused(path):
    for _ in range(2):
        with pytest.raises(NotAStore, match="put a job first"):
            open(f"sqlite:///{path}", create=False)
        path.touch()
    assert path.stat().st_size == 0


@pytest.mark.skipif(os.name == "nt", reason="devices and pipes of POSIX")
def test_what_is_no_file_is_refused_before_anything_is_made(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(NotAStore, match="is a device or a pipe"):
            open(f"sqlite:///{path}")
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]
    assert not os.path.lexists("/dev/null-workers")


@pytest.mark.parametrize("create", [True, False])
def test_a_name_that_is_too_long_is_refused_in_one_line(tmp_path, create):
    with pytest.raises(NotAStore, match=r"^/.{1,100}\.\.\.: the name is too long: give a shorter one$"):
        open(f"sqlite:///{tmp_path}/{'a' * 300}.db", create=create)


@pytest.mark.stress
@as_root
def test_a_folder_that_may_not_be_entered_is_named_so(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o700)
    let_in(tmp_path)
    (folder / "jobs.db").touch()
    with process(folder / "jobs.db") as other:
        other.become(12_345, 12_346, 0o022)
        refused = other.open()
    assert refused["error"] == "StoreReadOnly"
    assert refused["message"] == (
        f"{folder}/jobs.db cannot be opened: Permission denied: mend the permissions of the folders that lead there"
    )


@pytest.mark.skipif(os.name == "nt", reason="the working directory cannot be deleted there")
@pytest.mark.parametrize("use", [open, absolute])
def test_a_working_directory_that_was_deleted_is_named_so(tmp_path, monkeypatch, use):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(NotAStore, match="the working directory was deleted"):
        use("sqlite:///jobs.db")


def test_a_process_without_a_descriptor_left_is_named_so(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(f"sqlite:///{tmp_path}/first.db"):  # what is imported late is imported
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        with pytest.raises(StoreError, match=r"too many open files: close some, or raise the limit \(ulimit -n\)") as e:
            open(f"sqlite:///{tmp_path}/jobs.db")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not isinstance(e.value, StoreReadOnly)


@pytest.mark.skipif(os.name == "nt", reason="links of POSIX")
def test_a_link_in_place_of_a_file_beside_it_is_named_so(path):
    with open(f"sqlite:///{path}"):
        pass
    side = path.with_name("jobs.db-workers")
    side.unlink()
    side.symlink_to("/etc/passwd")
    with pytest.raises(StoreError, match=f"{side} is a link: remove it"):
        open(f"sqlite:///{path}")
