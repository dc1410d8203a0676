"""A stop is always a stop: a signal at each step of `pywheel work --reload` ends it, and nothing begins again."""

import os
import signal

import pytest

from pywheel.jobs import State
from tests.cli.steps import Stepped
from tests.isolated.child import run_well
from tests.jobs.waiting import until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")]
ONE, SEVERAL = (), ("--processes", "2")
TERM, INT, HUP, QUIT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT


@pytest.fixture
def shop(tmp_path):
    shop = Stepped(tmp_path)
    yield shop
    shop.close()


# ---- steps: each brings a command somewhere, and returns the job that is under way ----------------------------------


def importing(shop, options):
    shop.hold("main-import")
    shop.start(*options)
    shop.reached("main-import")


def workers_importing(shop, options):
    shop.hold("worker-import")
    shop.start(*options)
    shop.reached("worker-import", 2)


def waiting_for_a_mended_source(shop, options):
    shop.source.write_text(f"{shop.source.read_text()}\nraise KeyError(7)")
    shop.start(*options)
    shop.says("waiting for a change")


def at_work(shop, options):
    shop.start(*options)
    shop.working()
    return shop.busy()


def draining_for_a_reload(shop, options):
    id = at_work(shop, options)
    shop.save()
    shop.says("draining")
    return id


def drained_for_a_reload(shop, options):
    """What runs at the end of the process gives back what goes on beyond its grace."""
    shop.start(*options)
    shop.working()
    shop.hold("main-exit")
    shop.save()
    shop.reached("main-exit")


def importing_again(shop, options):
    shop.start(*options)
    shop.working()
    shop.hold("main-import")
    shop.save()
    shop.reached("main-import", 2)


def workers_importing_again(shop, options):
    shop.start(*options)
    shop.working()
    shop.reached("worker-import", 2)
    shop.hold("worker-import")
    shop.save()
    shop.reached("worker-import", 4)


def replacing_while_a_new_one_imports(shop, options):
    id = at_work(shop, options)
    shop.reached("worker-import", 2)
    shop.hold("worker-import")
    shop.send(HUP)
    shop.reached("worker-import", 3)
    return id


def replaced_while_an_old_one_drains(shop, options):
    id = at_work(shop, options)
    shop.send(HUP)
    shop.says("all workers are replaced")
    return id


def replacing_as_a_source_changes(shop, options):
    id = replacing_while_a_new_one_imports(shop, options)
    shop.save()
    shop.says("draining")
    return id


def mended(shop, options):
    waiting_for_a_mended_source(shop, options)
    shop.hold("main-exit")
    shop.save()
    shop.reached("main-exit")


IN_ONE = [
    importing,
    waiting_for_a_mended_source,
    mended,
    at_work,
    draining_for_a_reload,
    drained_for_a_reload,
    importing_again,
]
IN_SEVERAL = [
    *IN_ONE,
    workers_importing,
    workers_importing_again,
    replacing_while_a_new_one_imports,
    replaced_while_an_old_one_drains,
    replacing_as_a_source_changes,
]
STOPS = [
    *((step, ONE, number) for step in IN_ONE for number in (TERM, INT, HUP, QUIT)),
    *((step, SEVERAL, number) for step in IN_SEVERAL for number in (TERM, INT, QUIT)),
]


def named(step, options, number):
    return pytest.param(step, options, number, id=f"{step.__name__}-{len(options) or 1}-{number.name}")


@pytest.mark.parametrize(("step", "options", "number"), [named(*case) for case in STOPS])
def test_a_signal_to_stop_at_any_step_ends_it_and_cuts_no_grace(shop, step, options, number):
    id = step(shop, (*options, "--grace", "50"))
    starts = shop.starts()
    shop.send(number)
    if number == QUIT:
        shop.process.wait(60)  # the command itself; its workers go on to their ends
    elif id is not None:
        until(lambda: shop.has_said("draining"))
    shop.go()
    assert shop.ended() in ({-QUIT} if number == QUIT else {0, 130, -number})
    assert shop.starts() == starts
    if id is not None and (number != QUIT or options):
        assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DONE, 1)
        assert number == QUIT or shop.process.returncode == 0


# ---- the other order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [ONE, SEVERAL])
@pytest.mark.parametrize("number", [TERM, INT])
def test_a_source_that_changes_while_it_drains_for_a_stop_neither_cuts_the_grace_nor_begins_it_again(
    shop, options, number
):
    id = at_work(shop, (*options, "--grace", "50"))
    starts = shop.starts()
    shop.send(number)
    shop.says("draining")
    shop.save()
    shop.says("has changed")
    assert not shop.has_said("beginning again")
    shop.go()
    assert shop.ended() == 0
    assert shop.starts() == starts
    assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DONE, 1)


@pytest.mark.parametrize("options", [ONE, SEVERAL])
@pytest.mark.parametrize("step", [at_work, draining_for_a_reload])
def test_a_second_signal_ends_the_grace(shop, step, options):
    id = step(shop, (*options, "--grace", "1h"))
    shop.send(TERM)
    shop.send(INT)  # two of a kind that come together are one
    assert shop.ended() == 0
    assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DELAYED, 0)


@pytest.mark.parametrize("step", [drained_for_a_reload, mended])
def test_a_second_signal_ends_a_reload_whose_exit_functions_hang(shop, step):
    step(shop, ONE)
    shop.send(INT)
    shop.send(TERM)
    assert shop.ended() in {-TERM, -INT}


def test_a_hang_up_of_several_that_are_to_begin_again_anyway_is_no_stop(shop):
    drained_for_a_reload(shop, SEVERAL)
    before = len(shop.noted("worker-import"))  # one of the two may have had no time to begin
    shop.send(HUP)
    shop.go()
    shop.reached("main-import", 2)
    shop.reached("worker-import", before + 2)


@pytest.mark.parametrize("raised", ["", "    raise RuntimeError"])
def test_ctrl_c_that_the_program_catches_as_it_is_imported_is_a_stop(shop, raised):
    text = shop.source.read_text().replace(
        'at(f"{ROLE}-import")', f"try:\n    at('main-import')\nexcept:\n    pass\n{raised}"
    )
    shop.source.write_text(text)
    importing(shop, ONE)
    shop.send(INT)
    shop.go()
    assert shop.ended() == 130


# ---- what is given back before it begins again ----------------------------------------------------------------------


@pytest.mark.parametrize("options", [ONE, SEVERAL])
def test_a_reload_gives_back_unspent_what_it_had_claimed(shop, options):
    """Also what a handler still works on when its grace is over; the next process has it at once, whatever its ttr."""
    shop.start(*options, "--grace", "1")
    shop.working()
    ids = [shop.busy(), *(shop.queue.put("t") for _ in range(5))]
    shop.save()
    shop.reached("main-import", 2)
    shop.go()
    until(lambda: all(shop.queue.get(id).state is State.DONE for id in ids))
    assert [shop.queue.get(id).attempt for id in ids] == [1] * len(ids)
    assert {facts[2] for facts in shop.noted("handler")} == {"1"}


# ---- each line of beginning again -----------------------------------------------------------------------------------

EACH_LINE = """
import atexit, os, signal, sys
from itertools import count
from pywheel import JobQueue, Supervisor, Worker
from pywheel.processes.reload import begin_again
from tests.worker.test_stop_signals import with_a_call_at_step

AGAIN = 99  # the exit code of the process that begins again

def begins_again(kind, line, number):
    atexit._clear()
    atexit.register(lambda: None)
    if kind == "worker":
        queue = JobQueue("memory:")
        queue.handler("t")(print)
        runner = Worker(queue)
    else:
        runner = Supervisor("shop:queue")
    sys.orig_argv[1:] = ["-c", f"import os; os._exit({AGAIN})"]
    with runner.signals():
        runner.retire()
        runner.run()
        reached = with_a_call_at_step(
            line, lambda: begin_again(lambda: runner.told_to_stop), lambda: signal.raise_signal(number)
        )
        assert reached and runner.told_to_stop
    os._exit(0)

kind, number = sys.argv[1], int(sys.argv[2])
signal.signal(number, signal.SIG_DFL)  # whoever began this may ignore it: nohup does
for line in count(1):
    child = os.fork()
    if child == 0:
        try:
            begins_again(kind, line, number)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code)
    if code == AGAIN:  # it has no such line
        break
"""


@pytest.mark.parametrize(
    "case", [("supervisor", TERM), ("supervisor", INT), ("worker", TERM), ("worker", INT), ("worker", HUP)]
)
def test_a_signal_at_each_line_of_beginning_again_ends_the_process(case):
    """Until the last it is noted, then it kills: nothing is held any more. None is lost."""
    kind, number = case
    *ends, last = map(int, run_well("-c", EACH_LINE, kind, str(int(number))).split())
    assert set(ends) == {0, -number}
    assert last == 99
