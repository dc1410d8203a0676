"""One table of exit codes, for every command: docs/command-line.md."""

import re
import socket

import pytest

from tests.docs.pages import text

DONE = [
    "counts", "list --topic nobody", "retry-many --yes", "info", "workers", "schedules list", "verify",
    "check", "token list", "--version", "--help", "cancel 1",
]  # fmt: skip
NO = [
    "show 99", "show key --topic mail", "history 99", "cancel 99", "reschedule 99 --delay 1h", "retry 99", "delete 99",
    "edit 99 1",
    "put mail 1 --key taken", "pause nobody", "resume nobody", "limit nobody --none",
    "schedules pause nobody", "schedules remove nobody", "outlets enable nobody", "retry-many --topic nobody --yes",
]  # fmt: skip
USAGE = [  # more in test_advice.py
    "", "nosuch", "counts --nosuch", "show", "show x", "schedules", "token", "spool", "bridge",
    "put mail 1 --delay foo", "put mail 1 --at 2030-01-01", "put mail --file none.json", "purge --state delayed",
    "delete-many", "work nowhere:queue", "work os:path", "work os", "serve --port 99999",
    "work shop_of_exits:queue --metrics-port {taken}", "deliver --config .", "rekey --keys-file none",
    "token add --scope put --topics {empty}", "work shop_of_exits:queue --topics {empty}", "serve --proxies nonsense",
    "serve --proxies 10.0.0.0/8", "purge --topic {empty}", "backup {there}", "backup none/copy.db",
    "copy {store} {store}", "migrate --store sqlite:///x.db?a=1", "put {empty}", "put mail --delay nan",
    "put mail --delay {digits}{digits}", "put mail --ttr 0", "put mail --max-attempts 0",
    "put mail --max-attempts {digits}", "put mail --at tomorrow", "put mail --at 0001-01-01T00:00:00+14:00",
    "cancel {digits}", "show {long}", "list --after {digits}", "list -n 0", "list -n {digits}", "list -n {long}",
    "list --due-from tomorrow", "list --due-until 999999d", "purge --older-than -5", "reschedule 7",
    "reschedule 7 -d 1e400", "edit 7", "edit 7 {bad", "edit 7 1 --priority 10", "purge --state running",
    "new-key {spaced}", "work json:loads --grace soon", "work json:loads --processes 0", "backup .",
    *(f"counts --store {address}" for address in (
        "nosuch://host", "jobs.db", "sqlite://jobs.db", "sqlite:///jobs.db?x=1", "redis://localhost/one",
        "redis://localhost/0?nosuch=1", "redis+unix://", "postgresql://localhost:99999/x", "postgresql://h/x?nosuch=1",
    )),
    "copy {store} nosuch://host",
]  # fmt: skip
STORE = [
    *(f"{command} --store sqlite:///none.db" for command in (
        "counts", "list", "show 1", "cancel 1", "info", "workers", "verify", "check", "vacuum", "backup new.db",
        "retry-many --yes", "pause mail", "limit mail", "schedules list", "rekey --keys-file {keys}", "token list",
    )),
    *(f"{command} --store sqlite:///{{other}}" for command in ("put mail 1", "serve --open", "migrate", "verify")),
    "put mail 1 --store sqlite:///none/jobs.db", "work shop_of_exits:queue --store sqlite:///none/jobs.db",
    "counts --store redis+unix:///nowhere/redis.sock?timeout=100ms", "copy {store} sqlite:///none/jobs.db",
    "spool show --spool sqlite:///none.db", "spool drain --spool sqlite:///none.db",
]  # fmt: skip
TABLE = {0: DONE, 1: NO, 2: USAGE, 3: STORE}


@pytest.fixture
def named(queue, url, tmp_path, monkeypatch):
    """What the commands name: a store with a delayed job, and things that are not what is asked for."""
    queue.put("mail", 1, delay="1h")
    queue.put("mail", 1, delay="1h", key="taken")
    (tmp_path / "other.txt").write_text("of somebody else")
    (tmp_path / "keys").write_text("k:" + "A" * 43 + "=\n")
    (tmp_path / "shop_of_exits.py").write_text(
        "from pywheel import JobQueue\nqueue = JobQueue('memory:')\nqueue.handler('mail')(print)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        places = {"store": url, "there": "other.txt", "other": "other.txt", "keys": "keys", "taken": port}
        words = {"empty": "", "spaced": "a b", "digits": "9" * 30, "long": "9" * 5_000}
        yield {**places, **words}


@pytest.mark.parametrize(("code", "line"), [(code, line) for code, lines in TABLE.items() for line in lines])
def test_the_exit_code_says_whose_turn_it_is(call, named, tmp_path, code, line):
    arguments = [re.sub(r"\{(\w+)\}", lambda found: str(named[found[1]]), word) for word in line.split()]
    found, out, err = call(*arguments)
    assert found == code, out + err
    assert "Traceback" not in err
    if code > 1 and err:  # else it is the help of a group
        assert (out, err.startswith("pywheel: "), err.count("\n")) == ("", True, 1)
    assert not (tmp_path / "none.db").exists()


def test_the_page_has_every_code():
    rows = re.findall(r"^\| (\d+) \|", text("docs/command-line.md"), re.MULTILINE)
    assert [int(row) for row in rows] == [*TABLE, 130]
