"""The server's clock is set forward and back under a worker."""

import time

import pytest

from pywheel import Fixed, JobQueue
from pywheel.jobs import State
from pywheel.stores import open
from pywheel.stores.postgres import dialect
from pywheel.stores.sql.statement import Select
from tests.jobs.waiting import finished, until, working

HOUR = 3_600_000


@pytest.fixture
def step(postgres_server, monkeypatch):
    """Set the clock of the server ahead by so many ms: as far as the statements of a store see it."""
    with postgres_server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.ahead (ms bigint NOT NULL)")
        connection.execute("DELETE FROM public.ahead")
        connection.execute("INSERT INTO public.ahead VALUES (0)")
        monkeypatch.setattr(dialect, "NOW", f"({dialect.NOW} + (SELECT ms FROM public.ahead))")
        yield lambda ms: connection.execute("UPDATE public.ahead SET ms = ms + %s", (ms,))


def test_jobs_are_handled_whatever_its_steps_and_none_before_it_is_due(postgres_server, step):
    with open(postgres_server.url()) as store:
        queue = JobQueue(store)
        early = []

        @queue.handler("t", ttr=30, retry=Fixed(0))
        def handle(job):
            [[(now,)]] = store.run(Select("SELECT {now}"))
            if now < job.due:
                early.append(job)

        with working(queue):
            finished(queue, queue.put("t"))
            soon = queue.put("t", delay=1_800)
            far = queue.put("t", delay=9_000)
            step(HOUR)
            assert finished(queue, soon).state is State.DONE
            assert finished(queue, queue.put("t")).state is State.DONE
            step(-2 * HOUR)
            assert finished(queue, queue.put("t")).attempt == 1
            assert finished(queue, queue.put("t", delay=0.3)).attempt == 1
            time.sleep(0.5)
            assert queue.get(far).state is State.DELAYED
            step(5 * HOUR)
            until(lambda: queue.get(far).state is State.DONE)
    assert early == []
