"""Addresses of stores: what they lead to, and which are refused."""

import os

import pytest

from pywheel import (
    NotAStore,
)
from pywheel.stores import open
from pywheel.stores.sqlite.store import SqliteStore
from tests.stores.files import put


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jobs.db",
        "sqlite:",
        "sqlite://",
        "sqlite:///",
        "sqlite://[x",
        "sqlite:///a%00b",
        "redis://localhost",
        None,
        7,
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(NotAStore):
        open(url)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("sqlite:rel.db", "sqlite:///rel.db"),
        ("sqlite://rel.db", "sqlite:///rel.db"),
        ("sqlite:/abs.db", "sqlite:////abs.db"),
        ("sqlite://host/jobs.db", "sqlite:///host/jobs.db"),
    ],
)
def test_an_address_with_too_few_slashes_is_refused_with_the_right_spelling(tmp_path, monkeypatch, url, right):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAStore, match=f"did you mean '{right}'"):
        open(url)
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_and_fragments_are_refused_by_name(tmp_path):
    with pytest.raises(NotAStore, match=r"no option 'mode', 'x'.*%3F"):
        open(f"sqlite:///{tmp_path}/a.db?mode=ro&x=1")
    with pytest.raises(NotAStore, match="written %23"):
        open(f"sqlite:///{tmp_path}/a#1.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b?.db", "a#1.db", "50%.db", "a%20b.db", "ä\n.db", b"\xff.db"], ids=ascii)
def test_the_url_of_a_store_opens_the_same_file(tmp_path, name):
    with SqliteStore(os.path.join(tmp_path, os.fsdecode(name))) as store:  # noqa: PTH118
        id = put(store)
        with open(store.url) as again:
            assert again.path == store.path
            assert again.get(id).id == id


def test_an_address_may_quote_characters(tmp_path):
    with open(f"sqlite:///{tmp_path}/a%20b%3F.db"):
        assert (tmp_path / "a b?.db").exists()


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
    assert not os.path.lexists("/dev/null-lock")
