"""The spool on the command line: its contents, and forwarding them."""

import pytest

from pywheel import JobQueue
from pywheel.stores import open
from pywheel.testing import FaultyStore


@pytest.fixture
def spool(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/spool.db"
    monkeypatch.setenv("PYWHEEL_SPOOL", url)
    return url


@pytest.fixture
def left(queue, url, spool):
    """What a program left in the spool: two jobs, and two that will be refused."""
    queue.put("t", "holder", key="k")
    server = FaultyStore(open(url))
    server.away = True
    with JobQueue(server, spool=spool) as spooled:
        spooled.put("t", "one")
        spooled.put("u", "two", key="k")
        spooled.put_many([spooled.job("t", "three"), spooled.job("t", "four", key="k")])


def test_show_lists_what_waits_and_drain_forwards_it(says, call, queue, left):
    shown = says("spool", "show")
    assert [(job["id"], job["state"], job["topic"], job["key"], job["body"]) for job in shown["jobs"]] == [
        (-1, "waiting", "t", None, '"one"'),
        (-2, "waiting", "u", "k", '"two"'),
        (-3, "waiting", "t", None, '"three"'),
        (-4, "waiting", "t", "k", '"four"'),
    ]
    assert (shown["waiting"], shown["forwarded"]) == (4, 0)
    code, out, err = call("spool", "show", "-n", "1")
    assert (code, len(out.splitlines()), err) == (0, 2, "4 waiting, 0 sending, 0 refused, 0 forwarded, 0 cancelled\n")
    assert call("spool", "drain") == (1, "2 forwarded, 2 refused\n", "")
    assert [job.json() for job in queue.jobs.list()] == ["holder", "one", "two"]
    refused = says("spool", "show")["jobs"]
    assert [(job["id"], job["state"]) for job in refused] == [(-3, "refused"), (-4, "refused")]
    assert "JobExists" in refused[1]["last_error"]
    assert call("spool", "drain") == (0, "0 forwarded, 0 refused\n", "")


def test_what_was_refused_is_sent_again(says, call, queue, left):
    call("spool", "drain")
    assert call("spool", "retry", "-1")[0] == call("spool", "delete", "1")[0] == 1
    assert {call("spool", "retry", wrong)[0] for wrong in ("five", "--5", "5.0", "")} == {2}
    queue.cancel(("t", "k"))
    assert says("spool", "retry", "-3") == {"changed": True}
    assert says("spool", "drain") == {"forwarded": 2, "refused": 0}
    assert [job.json() for job in queue.jobs.list()][3:] == ["three", "four"]
    assert call("spool", "retry", "-3")[0] == 1


def test_a_refused_job_is_forgotten_and_the_rest_of_its_put_is_not_sent_as_the_whole(says, call, queue, left, spool):
    call("spool", "drain")
    assert says("spool", "delete", "4") == {"changed": True}
    queue.cancel(("t", "k"))
    assert call("retry", "3", "--store", spool)[0] == 0
    assert says("spool", "drain") == {"forwarded": 0, "refused": 0}
    [job] = says("spool", "show")["jobs"]
    assert (job["id"], job["state"]) == (-3, "refused")
    assert "all or none" in job["last_error"]


def test_a_row_that_somebody_else_wrote_is_shown_and_refused_and_the_rest_is_forwarded(says, call, queue, left, spool):
    call("put", "pywheel.spool", "1", "--store", spool)
    assert [job["body"] for job in says("spool", "show")["jobs"]][4:] == ["1"]
    assert call("spool", "drain") == (1, "2 forwarded, 2 refused\n", "")
    foreign = says("spool", "show")["jobs"][-1]
    assert (foreign["id"], foreign["state"], foreign["topic"]) == (-5, "refused", "pywheel.spool")
    assert "not put by a queue with this spool" in foreign["last_error"]
