"""An edit that returned MADE is what the handler gets, while workers claim the same jobs and others edit them."""

from functools import partial

from pywheel import Change, JobQueue
from tests.jobs.waiting import until, working
from tests.stores.calls import in_threads

JOBS = 150
EDITORS = 2


def test_a_handler_gets_the_body_and_the_priority_of_the_last_edit(any_url):
    handled, left = {}, {}
    with (
        JobQueue(any_url) as queue,
        JobQueue(queue.store.secret_url if "memory" not in any_url else queue.store) as other,
    ):
        queue.handler("t", concurrency=4)(lambda job: handled.setdefault(job.id, (job.json(), job.priority)))
        ids = queue.put_many(queue.job("t", ["old", 0], delay=0.002 * place) for place in range(JOBS))

        def edit(number):
            for place, id in enumerate(ids[number::EDITORS]):
                change = other.jobs.edit(id, body=["new", place], priority=place % 3)
                assert change in (Change.MADE, Change.RUNNING, Change.DONE)
                left[id] = (["new", place], place % 3) if change else (["old", 0], 0)

        with working(queue):
            in_threads(*(partial(edit, number) for number in range(EDITORS)))
            until(lambda: len(handled) == JOBS)
        assert handled == left


def test_of_several_who_edit_what_they_have_read_each_change_is_of_one(any_url):
    with JobQueue(any_url) as queue:
        id = queue.put("t", [], delay="1h")

        def append(name):
            for n in range(10):
                while not queue.jobs.edit(id, body=[*(job := queue.get(id)).json(), f"{name}{n}"], expect=job):
                    pass

        in_threads(*(partial(append, name) for name in "abc"))
        assert sorted(queue.get(id).json()) == sorted(f"{name}{n}" for name in "abc" for n in range(10))
