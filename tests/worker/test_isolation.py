"""Handlers in processes of their own: whatever a job does there is a failed attempt of it, and of nobody else."""

import contextlib
import functools
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pywheel import BadOption, JobQueue, Worker
from pywheel.jobs import State
from pywheel.worker.executors.processes import Isolated, _Child, _LeaseOver
from tests.isolated.child import run
from tests.jobs.waiting import alive, finished, until, working

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")]
HERE = Path(__file__).parent
ISOLATED = 8  # topics of isolated_shop
TOLD = "60000"  # ms beyond its ttr in which a job is still its worker's, who has to tell what has become of it


@pytest.fixture
def queue(shop):
    return shop.queue


@pytest.fixture
def ledger(shop):
    return shop


@pytest.fixture
def start(shop):
    """Start the program, or another one. None of the children outlives it."""
    yield lambda *arguments, **variables: shop.run(*(arguments or [HERE / "isolated_shop.py"]), **variables)
    shop.kill()
    until(lambda: not any(map(alive, shop.pids())))


def put(queue, deed, topic="t", **options):
    return queue.put(topic, {"deed": deed}, **options)


def ended(queue, deed, topic="t", **options):
    """Put a job; return it once it has ended."""
    return finished(queue, put(queue, deed, topic, **options))


def under_way(queue, ledger, deed, topic="t", **options):
    """Put a job; return its id once its handler has begun."""
    id = put(queue, deed, topic, **options)
    until(lambda: ledger.pids(id))
    return id


# ---- what becomes of a job ------------------------------------------------------------------------------------------

ENDS = [  # a deed, and the state, the attempts and the last error of its job; a policy gives it two attempts
    ("exit", State.DEAD, 2, "HandlerDied: the handler's process ended: exit code 7"),
    ("segfault", State.DEAD, 2, "HandlerDied: the handler's process ended: killed by SIGSEGV"),
    ("killed", State.DEAD, 2, "HandlerDied: the handler's process ended: killed by SIGKILL"),
    ("heir", State.DEAD, 2, "HandlerDied: the handler's process ended: exit code 9"),
    ("value", State.DEAD, 2, "ValueError: wrong"),
    ("sys.exit", State.DEAD, 2, "SystemExit: enough"),
    ("odd", State.DEAD, 2, "Odd: odd 1 2"),
    ("exists", State.DEAD, 2, "JobExists: taken"),
    ("give up", State.DEAD, 1, "GiveUp: no use"),
    ("never", State.DEAD, 1, "Never: no use"),
    ("bad body", State.DEAD, 1, "BadBody: no JSON"),
    ("later", State.DELAYED, 1, "RetryLater: busy"),
    ("soon", State.DELAYED, 1, "Soon: soon"),
    ("not now", State.DELAYED, 0, None),
]


def over(job):
    """Return a job that is dead, or due an hour later."""
    return job if job.state is State.DEAD or job.due > time.time() * 1000 + 3_000_000 else None


def test_whatever_ends_an_attempt_is_its_reason_and_no_neighbour_is_touched(queue, start, ledger):
    start()
    ids = {deed: put(queue, deed) for deed, *_ in ENDS}
    good = [put(queue, "nothing") for _ in range(20)] + [queue.put("beside") for _ in range(20)]
    for deed, state, attempts, error in ENDS:
        job = until(lambda id=ids[deed]: over(queue.get(id)))
        assert (job.state, job.attempt) == (state, attempts), deed
        assert job.last_error is None if error is None else job.last_error.endswith(error)
    assert {(finished(queue, id).state, queue.get(id).attempt) for id in good} == {(State.DONE, 1)}
    assert len({line[1] for line in ledger.lines("beside")}) == 1, "the worker is still the same process"


def test_what_returns_in_a_forked_child_does_not_end_the_next_job(queue, start):
    start()
    first = put(queue, "fork", "one")
    second = put(queue, "nap and fail", "one")
    assert finished(queue, first).state is State.DONE
    assert finished(queue, second).last_error.endswith("ValueError: wrong")


def test_a_retry_function_is_asked_in_the_child_which_has_what_was_raised(queue, start, ledger):
    worker = start().pid
    odd = ended(queue, "odd", "asks", ttr="20s")
    assert (odd.state, odd.attempt) == (State.DEAD, 1)
    assert odd.last_error.endswith("Odd: odd 1 2")
    value = ended(queue, "value", "asks", max_attempts=3, ttr="20s")
    assert (value.state, value.attempt) == (State.DEAD, 3)
    asked = [(int(pid), error) for id, pid, error in ledger.lines("asked")]
    assert [error for _, error in asked] == ["Odd", *["ValueError"] * 3]
    assert worker not in {pid for pid, _ in asked}


def test_a_retry_function_is_asked_in_the_worker_of_what_has_become_of_a_child(queue, start, ledger):
    worker = start(SHOP_MARGIN=TOLD).pid
    for deed, options, error in (("sleep", {}, "HandlerTimeout"), ("exit", {"ttr": "20s"}, "HandlerDied")):
        job = ended(queue, deed, "asks", max_attempts=2, **options)
        assert (job.state, job.attempt) == (State.DEAD, 2)
        assert [line[1:] for line in ledger.lines("asked") if int(line[0]) == job.id] == [[str(worker), error]] * 2


def test_a_retry_function_that_a_child_cannot_find_is_refused():
    queue = JobQueue("memory:")
    with pytest.raises(BadOption, match="isolate=True wants a retry function of a module"):
        queue.handler("t", isolate=True, retry=lambda job, error: "1s")(json.dumps)


@pytest.mark.parametrize(
    ("deed", "options", "ttr"),
    [("stopped", {}, 1), ("shell", {}, 1), ("greedy", {}, 1), ("sleep", {"ttr": "2s"}, 2)],
)
def test_a_job_that_hangs_is_killed_at_its_ttr_with_all_that_it_has_started(queue, start, ledger, deed, options, ttr):
    start(SHOP_MARGIN=TOLD)
    job = ended(queue, deed, "short", **options)
    assert (job.state, job.attempt) == (State.DEAD, 2)
    assert job.last_error.endswith(f"HandlerTimeout: the handler was killed after its ttr of {ttr} s")
    until(lambda: not any(alive(int(pid)) for [pid] in ledger.lines("shell")))
    assert len(ledger.pids(job.id)) == 2
    assert ended(queue, "nothing", "short", ttr="20s").state is State.DONE


def test_a_handler_that_keeps_its_lease_has_no_limit(queue, start):
    start(SHOP_MARGIN=TOLD)
    job = ended(queue, "nap", "kept")
    assert (job.state, job.attempt) == (State.DONE, 1)


# ---- the children ---------------------------------------------------------------------------------------------------


def test_children_are_few_and_handle_many_jobs(queue, start, ledger):
    worker = start()
    ids = [put(queue, "nothing") for _ in range(100)]
    ids.append(queue.put("t", {"deed": "nothing", "more": "x" * 900_000}))  # a large body
    assert {finished(queue, id).state for id in ids} == {State.DONE}
    assert 1 <= len(ledger.pids()) <= 2
    assert worker.pid not in ledger.pids()
    assert {line[2] for line in ledger.lines("start")} == {str(worker.pid)}
    assert all(line[0] == line[3] for line in ledger.lines("start")), "current_job is the job"


def test_a_child_that_ends_while_it_is_idle_costs_no_attempt(queue, start, ledger):
    start()
    ended(queue, "nothing")
    for _ in range(3):
        for pid in ledger.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job = ended(queue, "nothing")
        assert (job.state, job.attempt) == (State.DONE, 1)


def test_a_job_does_not_wait_for_a_child_that_starts_while_another_one_is_idle(queue, start, ledger, tmp_path):
    gate = tmp_path / "gate"
    start()
    ready = until(lambda: _imported(ledger, 1 + ISOLATED))
    ended(queue, "nothing")
    gate.touch()  # a second child starts, and imports for as long as the test
    first, second = put(queue, "nap"), put(queue, "nothing")
    assert [(finished(queue, id).state, queue.get(id).attempt) for id in (first, second)] == [(State.DONE, 1)] * 2
    assert len(ledger.pids()) == 1
    gate.unlink()
    under_way(queue, ledger, "sleep")
    ended(queue, "nothing")
    assert len(ledger.pids()) == 2
    assert _imported(ledger, 2 + ISOLATED) == ready | ledger.pids(), "it served the next job"


def _imported(ledger, count):
    """Return the processes that have imported the program, once there are `count`, or ()."""
    pids = {int(pid) for [pid] in ledger.lines("import")}
    return pids if len(pids) >= count else ()


@pytest.fixture
def hold_start(monkeypatch):
    """Give a function that holds the start of a child from some number on; it returns the children that start."""
    children, wait = [], _Child.wait_until_ready

    def hold(number, go_on):
        def starts(child):
            if child not in children:
                children.append(child)
            if len(children) >= number:
                go_on.wait(60)
            return wait(child)

        monkeypatch.setattr(_Child, "wait_until_ready", starts)
        return children

    return hold


def test_a_worker_claims_no_isolated_job_before_a_child_can_run_it(queue, hold_start):
    """Another worker may have a child that is ready."""
    ready, pulses = threading.Event(), []
    children = hold_start(1, ready)
    queue.handler("t", isolate=True)(does_nothing)
    queue.handler("u")(does_nothing)
    first = queue.put("t")
    with working(queue, pulse=lambda *, ready: pulses.append(ready)):
        until(lambda: children)
        finished(queue, queue.put("u"))
        assert queue.get(first).state is State.DELAYED
        assert not any(pulses), "a supervisor replaces no other worker by this one"
        ready.set()
        assert finished(queue, first).attempt == 1
        until(lambda: pulses[-1])


@pytest.mark.parametrize("deed", ["shell", "greedy", "nothing"])
def test_children_end_with_a_worker_that_is_killed(queue, start, ledger, deed):
    worker = start()
    under_way(queue, ledger, deed)
    worker.kill()
    worker.wait()
    until(lambda: not any(map(alive, ledger.pids())))
    until(lambda: not any(alive(int(pid)) for [pid] in ledger.lines("shell")))


def test_a_job_of_a_worker_that_is_stopped_ends_after_its_ttr_all_the_same(queue, start, ledger):
    worker = start()
    id = under_way(queue, ledger, "sleep", "short")
    worker.send_signal(signal.SIGSTOP)
    until(lambda: not any(map(alive, ledger.pids(id))))


def test_a_drain_lets_a_child_finish_and_gives_back_unspent_what_runs_past_the_grace(queue, start, ledger):
    worker = start(GRACE="0.1")
    first = ended(queue, "nothing")
    hung = under_way(queue, ledger, "sleep")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0
    assert not any(map(alive, ledger.pids()))
    assert first.state is State.DONE
    assert (queue.get(hung).state, queue.get(hung).attempt) == (State.DELAYED, 0)


def test_signals_to_all_processes_at_once_fail_no_job(queue, start, ledger):
    """As a service manager sends them, and a terminal."""
    worker = start()
    assert ended(queue, "twice").attempt == 1
    assert ended(queue, "nothing").state is State.DONE
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 0


def test_a_worker_that_is_stopped_in_process_leaves_neither_child_nor_descriptor(shop):
    code = f"""
import sys, os, time
sys.path.insert(0, {str(HERE)!r})
import isolated_shop as shop
from pywheel import Worker
def descriptors():  # each child has a pipe
    names = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{{fd}}")]
    return sum(name.startswith("pipe") for name in names)
for number in range(2):
    worker = Worker(shop.queue)
    worker.start()
    ids = [shop.queue.put("t", {{"deed": deed}}) for deed in ("nothing", "exit", "value")]
    while any(shop.queue.get(id).state.live for id in ids):
        time.sleep(0.01)
    worker.stop()
    assert worker.join(60)
    if number == 0:
        before = descriptors()
assert descriptors() <= before, (before, descriptors())
try:
    print("children", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child is left")
"""
    result = run("-c", code, SHOP_FOLDER=str(shop.folder))
    assert result.stdout == "no child is left\n", result.stderr


# ---- finding the handler --------------------------------------------------------------------------------------------


def test_coroutine_functions_share_the_loop_of_their_child(queue, start, ledger):
    start()
    ids = [put(queue, "nothing", "async") for _ in range(20)] + [put(queue, "value", "async")]
    assert [finished(queue, id).state for id in ids] == [State.DONE] * 20 + [State.DEAD]
    loops = ledger.lines("loop")
    assert len({loop for loop, _, _ in loops}) <= 2
    assert {int(id) for _, _, id in loops} == set(ids), "each sees its own job"


def test_decorated_functions_are_found_whichever_way_they_are_decorated(queue, start, ledger):
    start()
    inside, outside = put(queue, "nothing", "inside"), put(queue, "nothing", "outside")
    assert finished(queue, inside).state is State.DONE
    assert finished(queue, outside).state is State.DONE
    assert ledger.lines("logged") == [[str(inside)]], "as in process: the decorator outside was not registered"


def test_a_child_finds_what_its_worker_can_import_and_puts_into_its_store_under_its_own_key(tmp_path, start, ledger):
    url = f"sqlite:///{tmp_path}/other.db"
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import isolated_shop as s; s.queue.use({url!r}); s.works()"
    with JobQueue(url) as other:
        start("-c", code)
        assert finished(other, put(other, "own key", key="k")).state is State.DONE
        [[child]] = ledger.lines("put")
        assert finished(other, int(child)).topic == "t"
        assert other.get(("t", "k")).id == int(child)


JOBS = """
from pywheel import JobQueue
queue = JobQueue("memory:")
@queue.before
def enter(job):
    queue.put("seen", key="before")
@queue.handler("t", isolate=True)
def handle(job):
    queue.put("seen", key="handler")
"""
MAIN = """
import os
from views import queue
from pywheel import Worker
if __name__ == "__main__":
    queue.use("sqlite:///" + os.environ["SHOP_FOLDER"] + "/jobs.db")
    Worker({}).run()
"""


@pytest.mark.parametrize("given", ["queue", "queue.aio"])
def test_a_child_finds_its_queue_also_where_modules_that_it_does_not_import_have_it(queue, start, tmp_path, given):
    sources = {"jobs": JOBS, "views": "from jobs import queue", "main": MAIN.format(given)}
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source)
    start(str(tmp_path / "main.py"))
    assert finished(queue, queue.put("t")).state is State.DONE
    assert [job.key for job in queue.jobs.list("seen")] == ["before", "handler"]


def test_a_child_logs_as_its_worker_does_has_no_input_and_may_start_processes(queue, start, ledger):
    start()
    for deed in ("log", "stdin", "daemon"):
        assert ended(queue, deed).state is State.DONE
    assert ledger.said("said in a child")
    assert ledger.lines("stdin") == [["''"]]


def test_what_cannot_be_found_by_its_name_is_refused_when_it_is_registered():
    def local(job):
        pass

    class Callable:
        def __call__(self, job):
            pass

    with JobQueue("memory:") as queue:
        for function in (lambda job: None, local):
            with pytest.raises(BadOption, match="is a lambda or a local function"):
                queue.handler("t", isolate=True)(function)
        for function in (Callable(), functools.partial(print, 1), [].append):
            with pytest.raises(BadOption, match="wants a function of a module"):
                queue.handler("t", isolate=True)(function)
        queue.handler("t", isolate=True)(print)


def test_a_function_of_a_typed_in_program_is_refused():
    code = """
from pywheel import BadOption, JobQueue
def handle(job): pass
try:
    JobQueue("memory:").handler("t", isolate=True)(handle)
except BadOption as error:
    print(error)
"""
    assert "is defined in a __main__ that cannot be imported again" in run("-c", code).stdout


def replaced(job):
    pass


_handler, replaced = replaced, None


def test_a_name_that_leads_elsewhere_is_refused_by_the_worker():
    with JobQueue("memory:") as queue:
        queue.handler("t", isolate=True)(_handler)
        with pytest.raises(BadOption, match="is not the handler itself"):
            Worker(queue)


UNGUARDED = """
import os
from pywheel import Fixed, JobQueue, Worker
queue = JobQueue(f"sqlite:///{os.environ['SHOP_FOLDER']}/jobs.db")
@queue.handler("t", isolate=True, retry=Fixed("1ms", attempts=1))
def handle(job):
    pass
Worker(queue).run()
"""


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (UNGUARDED, "BadOption: this program starts a worker when it is imported"),
        ("if __name__ != '__main__': raise KeyError('new')\n" + UNGUARDED, "KeyError: 'new'"),
    ],
)
def test_a_program_that_a_child_cannot_import_fails_the_attempt_and_says_why(queue, start, tmp_path, source, error):
    program = tmp_path / "program.py"
    program.write_text(source)
    start(str(program))
    job = finished(queue, queue.put("t"))
    assert job.state is State.DEAD
    assert "the handler's process cannot import it: " in job.last_error
    assert error in job.last_error


TRACED = """
import os
from contextlib import nullcontext
from pywheel import Fixed, JobQueue, Worker
from pywheel.events import Tracer
class Traces(Tracer):
    def __call__(self, event): pass
    def sending(self, jobs): return nullcontext()
    def handling(self, job): return nullcontext()
    def carried(self): return {}
    def going_on(self, carried): raise KeyError("trace")
queue = JobQueue(f"sqlite:///{os.environ['SHOP_FOLDER']}/jobs.db", listeners=[Traces()])
@queue.handler("t", isolate=True, retry=Fixed("1ms", attempts=1))
def handle(job):
    pass
if __name__ == "__main__":
    Worker(queue).run()
"""


def test_an_error_of_a_tracer_in_a_child_is_the_attempts_and_does_not_end_the_child(queue, start, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(TRACED)
    start(str(program))
    job = finished(queue, queue.put("t"))
    assert (job.state, job.last_error) == (State.DEAD, "KeyError: 'trace'")


def does_nothing(job):
    pass


def test_no_handler_begins_after_a_pause_that_returned_though_its_process_was_starting(queue, hold_start):
    paused = threading.Event()
    children = hold_start(2, paused)
    queue.handler("t", isolate=True)(does_nothing)
    with working(queue):
        finished(queue, queue.put("t"))
        os.kill(children[0]._process.pid, signal.SIGKILL)
        id = queue.put("t")
        until(lambda: len(children) == 2)
        queue.topics.pause("t")
        paused.set()
        until(lambda: queue.get(id).state is not State.RUNNING)
        assert (queue.get(id).state, queue.get(id).attempt) == (State.DELAYED, 0)
        queue.topics.resume("t")
        finished(queue, id)


def test_a_handler_whose_process_was_starting_begins_no_later_than_others(queue, monkeypatch):
    """A pause waits for 3 s for a worker that stands still."""
    left = []
    monkeypatch.setattr(Isolated, "__call__", lambda self, job, _, begin_by: left.append(begin_by() - time.monotonic()))
    queue.handler("t", isolate=True, ttr="10m")(does_nothing)
    with working(queue):
        finished(queue, queue.put("t"))
    assert left[0] < 3


def test_a_handler_does_not_begin_once_its_claim_is_over():
    """A worker may be stopped as it hands a job over, for longer than its claim lasts."""
    with JobQueue("memory:") as queue:
        queue.handler("t", isolate=True)(print)
        queue.put("t", "once")
        [job] = queue.reserve("t")
        isolated = Isolated(queue.handlers["t"])
        try:
            with pytest.raises(_LeaseOver):
                isolated(job, begin_by=time.monotonic)
            assert isolated(job) is None  # the same process is there for what is in time
        finally:
            isolated.close()
