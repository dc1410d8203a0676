"""A stop is always a stop: a signal at each step of `pywheel work --reload` ends it, and nothing begins again."""

import os
import signal

import pytest

from pywheel.jobs import State
from tests.cli.steps import Stepped
from tests.jobs.waiting import alive, until
from tests.seeds import SEED

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
    shop.hold("import")
    shop.start(*options)
    shop.reached("import", shop.processes)


def waiting_for_a_mended_source(shop, options):
    shop.source.write_text(f"{shop.source.read_text()}\nraise KeyError(7)")
    shop.start(*options)
    shop.says("waiting for a change")
    assert shop.has_said("KeyError: 7")
    assert shop.has_said(f'File "{shop.source}", line')


def mended(shop, options):
    waiting_for_a_mended_source(shop, options)
    shop.hold("import")
    before = shop.starts()
    shop.save()
    shop.reached("import", before + shop.processes)


def at_work(shop, options):
    shop.start(*options)
    shop.working()
    return shop.busy()


def replacing_while_a_new_one_imports(shop, options):
    id = at_work(shop, options)
    shop.hold("import")
    shop.save()
    shop.reached("import", shop.processes + 1)
    return id


def replaced_while_an_old_one_drains(shop, options):
    id = at_work(shop, options)
    shop.save()
    shop.says("all workers are replaced")
    return id


def replacing_again(shop, options):
    id = replacing_while_a_new_one_imports(shop, options)
    shop.send(HUP)
    shop.says("beginning again with the replacement")
    return id


STEPS = [
    importing, waiting_for_a_mended_source, mended, at_work, replacing_while_a_new_one_imports,
    replaced_while_an_old_one_drains, replacing_again,
]  # fmt: skip


STOPS = [(TERM, ONE), (INT, SEVERAL), (QUIT, ONE)]


@pytest.mark.drawn(11)
@pytest.mark.parametrize(("place", "step"), list(enumerate(STEPS)))
def test_a_signal_to_stop_at_any_step_ends_it_and_cuts_no_grace(shop, place, step):
    """Each step with one of the signals, with another one by another seed."""
    number, options = STOPS[(SEED + place) % len(STOPS)]
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
    if id is not None:
        assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DONE, 1)
        assert number == QUIT or shop.process.returncode == 0


@pytest.mark.parametrize(("number", "options"), [(TERM, SEVERAL), (INT, ONE)])
def test_a_source_that_changes_while_it_drains_for_a_stop_neither_cuts_the_grace_nor_begins_it_again(
    shop, options, number
):
    id = at_work(shop, (*options, "--grace", "50"))
    starts = shop.starts()
    shop.send(number)
    shop.says("draining")
    shop.save()
    shop.go()
    assert shop.ended() == 0
    assert not shop.has_said("has changed")
    assert shop.starts() == starts
    assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DONE, 1)


@pytest.mark.parametrize(("step", "options"), [(at_work, ONE), (replaced_while_an_old_one_drains, SEVERAL)])
def test_a_second_signal_ends_the_grace(shop, step, options):
    id = step(shop, (*options, "--grace", "1h"))
    shop.send(TERM)
    shop.says("draining")
    shop.send(INT)  # two that come together are one
    assert shop.ended() == 0
    assert (shop.queue.get(id).state, shop.queue.get(id).attempt) == (State.DELAYED, 0)


def given_back(job):
    """Whether its first claim is over; a new process may have claimed it once more."""
    return job.state is State.DELAYED or job.claims > 1


@pytest.mark.parametrize("options", [ONE, SEVERAL])
def test_a_reload_gives_back_unspent_what_it_had_claimed(shop, options):
    """Also what a handler still works on when its grace is over; the next process has it at once, whatever its ttr."""
    shop.start(*options, "--grace", "1")
    shop.working()
    ids = [shop.busy(), *(shop.queue.put("t") for _ in range(5))]
    shop.save()
    shop.says("all workers are replaced")
    until(lambda: given_back(shop.queue.get(ids[0])))
    shop.go()
    until(lambda: all(shop.queue.get(id).state is State.DONE for id in ids))
    assert [shop.queue.get(id).attempt for id in ids] == [1] * len(ids)
    assert {facts[2] for facts in shop.noted("handler")} == {"1"}


@pytest.mark.parametrize("options", [ONE, SEVERAL])
def test_a_source_that_breaks_leaves_the_old_version_at_work_until_it_is_mended(shop, options):
    good = shop.source.read_text()
    shop.start(*options)
    shop.working()
    shop.source.write_text("(")
    shop.says("the new version does not start")
    assert shop.has_said("SyntaxError")
    assert shop.has_said("shop.py has changed")
    before, old = shop.starts(), shop.pids()
    shop.working()
    shop.source.write_text(good.replace('at("handler"', 'at("mended"'))
    shop.says("all workers are replaced")
    assert shop.starts() == before + shop.processes
    until(lambda: not any(map(alive, old)))  # each of them may take a job until then
    shop.queue.put("t")
    shop.reached("mended")


@pytest.mark.parametrize("options", [ONE, SEVERAL])
def test_a_source_that_is_mended_while_the_broken_one_imports_is_begun_with(shop, options):
    good = shop.source.read_text()
    shop.source.write_text(good.replace('at("import")', 'at("broken")\nraise KeyError(7)'))
    shop.hold("broken")
    shop.hold("import")
    shop.start(*options)
    shop.reached("broken", shop.processes)
    shop.source.write_text(good)
    shop.reached("import")
    (shop.folder / "hold-broken").unlink()
    until(lambda: shop.has_said("ended after") or shop.has_said("waiting for a change"))
    assert not shop.has_said("waiting for a change")
    shop.go()
    shop.working()
