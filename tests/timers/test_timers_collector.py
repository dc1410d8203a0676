"""The garbage collector and a driver with many timers: it spends no time on them, and still finds their cycles."""

import asyncio
import contextvars
import gc
import threading
import weakref
from functools import partial

import pytest

from tests.core.items import Item, Meddler
from tests.timers.loops import nothing

pytestmark = pytest.mark.usefixtures("swept")
MANY = 1_500  # more than a native driver has as ordinary objects


class App(Item):
    """Callbacks, and what they belong to."""

    def act(self, *args):
        """A method as callback."""


def crowd(timers):
    for number in range(MANY):
        timers.call_later(10**6 + number, nothing)


@pytest.fixture
def crowded(timers):
    """A driver with many timers."""
    crowd(timers)
    return timers


@pytest.fixture
def native(pywheel):
    """Skip where there is no native implementation, or no GIL: there every timer is an ordinary object."""
    timers = pywheel.Timers()
    crowd(timers)
    if gc.is_tracked(timers.call_later(1, nothing)):
        pytest.skip("every timer is tracked here")


def collect():
    """Collect all: the first collection passes over drivers that were used since the one before."""
    gc.collect()
    gc.collect()


SHAPES = {
    "method": lambda timers, app, delay: timers.call_later(delay, app.act),
    "method with an argument": lambda timers, app, delay: timers.call_later(delay, app.act, 1.5),
    "method with arguments": lambda timers, app, delay: timers.call_later(delay, app.act, 1, 2),
    "closure": lambda timers, app, delay: timers.call_at(delay, lambda: app),
    "partial": lambda timers, app, delay: timers.call_later(delay, partial(nothing, app)),
    "argument": lambda timers, app, delay: timers.call_later(delay, nothing, app),
    "arguments": lambda timers, app, delay: timers.call_later(delay, nothing, 1, app),
    "tuple": lambda timers, app, delay: timers.call_later(delay, nothing, (1, app)),
    "context": lambda timers, app, delay: context_of(app).run(timers.call_later, delay, nothing),
    "context given": lambda timers, app, delay: timers.call_later(delay, nothing, context=context_of(app)),
    "periodic": lambda timers, app, delay: timers.call_every(delay, app.act, 1, 2),
}
variable = contextvars.ContextVar("variable")


def context_of(app):
    context = contextvars.Context()
    context.run(variable.set, app)
    return context


def alive(refs):
    """Return the shapes of which something lives."""
    return [shape for shape, mine in refs.items() if any(ref() is not None for ref in mine)]


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("among", ["few", "many"])
def test_a_dropped_driver_is_collected_though_its_pending_timers_lead_back_to_it(pywheel, clock, among, contexts):
    finalised, refs = [], {}
    for shape, make in SHAPES.items():
        driver, app = pywheel.Timers.__base__(clock, contexts=contexts), App()
        app.timers, app.last = driver, Meddler(lambda shape=shape: finalised.append(shape), [])
        if among == "many":
            crowd(driver)
            make(driver, app, 5)
        else:
            app.timer = make(driver, app, 5)  # of many, whoever holds one keeps all
        refs[shape] = weakref.ref(driver), weakref.ref(app)
    del driver, app
    collect()
    assert alive(refs) == []
    assert sorted(finalised) == sorted(SHAPES)


def test_what_a_pending_timer_refers_to_lives_through_collections(pywheel, clock):
    drivers, refs = [], {}
    for shape, make in SHAPES.items():
        driver, app = pywheel.Timers.__base__(clock, contexts=True), App()
        crowd(driver)
        app.itself, app.timers = app, driver
        make(driver, app, 5)
        drivers.append(driver)
        refs[shape] = (weakref.ref(app),)
    del app
    for _ in range(3):
        collect()
        assert alive(refs) == list(SHAPES)
    clock.jump(5)
    for driver in drivers:
        driver._run()
        for timer in driver.pending():
            if timer.when() < 10**6:
                timer.cancel()
    del timer
    collect()
    assert alive(refs) == []


ENDS = {
    "cancel": lambda driver, timer, clock: timer.cancel(),
    "fire": lambda driver, timer, clock: (clock.jump(5), driver._run(), timer.cancel()),
    "stop": lambda driver, timer, clock: driver._stop(),
    "forget": lambda driver, timer, clock: driver._forget(),
    "begin anew": lambda driver, timer, clock: driver.__init__(clock, contexts=True),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_timer_that_has_left_the_wheel_may_be_garbage_with_whoever_holds_it(pywheel, clock, end):
    refs = {}
    for shape, make in SHAPES.items():
        driver, app = pywheel.Timers.__base__(clock, contexts=True), App()
        crowd(driver)
        app.timers, app.timer = driver, make(driver, app, 5)
        app.left = ENDS[end](driver, app.timer, clock)
        if end == "stop":
            assert app.timer in app.left
            assert app.timer.callback is not None
        refs[shape] = weakref.ref(driver), weakref.ref(app)
    del driver, app
    collect()
    assert alive(refs) == []


@pytest.mark.usefixtures("native")
def test_a_held_timer_of_a_driver_with_many_keeps_all_until_it_ends(crowded):
    """The price of not being seen; whoever drops such a driver has to stop it."""
    app = App()
    app.timers, app.timer = crowded, crowded.call_later(5, app.act)
    gone = weakref.ref(app)
    del app
    collect()
    assert gone() is not None
    gone().timer.cancel()
    collect()
    assert gone() is None


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.parametrize("shape", ["method", "method with arguments", "argument", "arguments"])
def test_many_timers_are_no_objects_for_the_collector(pywheel, clock, shape, contexts):
    driver = pywheel.Timers.__base__(clock, contexts=contexts)
    crowd(driver)
    app = App()
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1_000):
        SHAPES[shape](driver, app, 100 + number)
    gc.collect()
    assert len(gc.get_objects()) - before < 10


@pytest.mark.usefixtures("native")
def test_a_timer_is_tracked_again_once_stop_has_handed_it_out(crowded):
    timer = crowded.call_later(1, nothing, 1, [])
    assert not gc.is_tracked(timer)
    assert timer.args is not timer.args  # its own is not tracked either, and nobody else may hold it
    assert all(map(gc.is_tracked, crowded.stop()))
    assert timer.args == (1, [])


def test_referents_and_referrers_can_be_asked_for(crowded):
    app = App()
    for shape in SHAPES.values():
        shape(crowded, app, 5)
    for _ in range(3):
        assert all(gc.get_referents(*gc.get_referents(crowded)) for _ in range(3))
        gc.get_referrers(app, nothing, crowded)
    collect()
    assert len(crowded) == MANY + len(SHAPES)


@pytest.mark.parametrize("among", ["few", "many"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cancel_releases_what_a_timer_refers_to_before_it_returns(pywheel, clock, shape, among):
    driver = pywheel.Timers.__base__(clock, contexts=True)
    if among == "many":
        crowd(driver)
    app = App()
    gone = weakref.ref(app)
    timer = SHAPES[shape](driver, app, 5)
    del app
    assert gone() is not None
    assert timer.cancel() is True
    assert gone() is None
    assert (timer.callback, timer.args, timer.when(), timer.remaining()) == (None, (), None, None)
    assert timer.cancel() is False
    assert (timer.reset(1), timer.reschedule(1), timer.active(), timer.cancelled()) == (False, False, False, True)


class Look:
    """A delay that looks, when it is asked for its seconds, which tuples refer to a thing, and keeps them."""

    def __init__(self, thing):
        self.thing, self.found = thing, []

    def __index__(self):
        self.found.extend(holder for holder in gc.get_referrers(self.thing) if type(holder) is tuple)
        self.thing = None
        return 5


def test_arguments_that_somebody_got_hold_of_keep_what_they_refer_to(pywheel, clock):
    driver, app = pywheel.Timers(clock), App()
    crowd(driver)
    app.itself, app.driver = app, driver
    delay = Look(app)
    driver.call_later(delay, nothing, 1, app)
    gone = weakref.ref(app)
    del driver, app
    collect()
    assert gone() is not None
    assert delay.found[-1][1].itself is gone()
    del delay
    collect()
    assert gone() is None


@pytest.mark.parametrize("end", ["cancel", "fire", "stop", "drop"])
def test_arguments_that_somebody_got_hold_of_may_be_garbage_once_the_timer_has_ended(pywheel, clock, end):
    driver, app = pywheel.Timers(clock), App()
    crowd(driver)
    delay = Look(app)
    timer = driver.call_later(delay, nothing, 1, app)
    app.found = delay.found
    if end != "drop":
        ENDS[end](driver, timer, clock)
    gone = weakref.ref(app)
    del app, delay, timer, driver
    collect()
    collect()
    assert gone() is None


async def test_a_context_that_an_event_loop_made_lives_though_a_dropped_driver_had_it_too(pywheel, clock, ours):
    def make():
        variable.set("there")
        return ours.call_later(0.001, lambda: seen.append(variable.get()))

    seen, handle = [], contextvars.Context().run(make)
    driver = pywheel.Timers(clock)
    crowd(driver)
    driver.call_later(5, nothing, context=handle._context)
    del driver
    collect()
    while not seen:
        await asyncio.sleep(0.001)
    assert seen == ["there"]


def test_a_dropped_driver_is_collected_though_its_clock_goes_on_running_its_timers(pywheel, clock):
    def again(timers):
        timers().call_later(1, again, timers)
        timers().pending()[-1].reset()

    driver, app = pywheel.Timers(clock), App()
    crowd(driver)
    app.driver = driver
    driver.call_every(1, app.act)
    gone = weakref.ref(driver)
    driver.call_later(1, again, gone)
    del driver, app
    for _ in range(3):
        clock.advance(1)
        gc.collect()
    assert gone() is None


class Trash:
    """Garbage that only the collector finds, and whose finaliser then acts."""

    def __init__(self, action, errors):
        self.itself = self
        self.meddler = Meddler(action, errors)


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.parametrize("action", ["cancel", "schedule", "reset", "pending", "collect"])
def test_finalisers_may_use_a_driver_with_many_timers_from_within_any_call(crowded, clock, action):
    errors, ran, expected = [], [], 0
    others = [crowded.call_later(10**5, nothing, number, [number]) for number in range(200)]
    act = {
        "cancel": lambda: others.pop().cancel(),
        "schedule": lambda: crowded.call_later(1, ran.append, 0),
        "reset": lambda: others[0].reset(),
        "pending": lambda: [timer.args for timer in crowded.pending()],
        "collect": gc.collect,
    }[action]
    for number in range(40):
        Trash(act, errors)
        timer = crowded.call_later(number % 3, ran.append, number)
        periodic = crowded.call_every(1, nothing, number, [number])
        Trash(act, errors)
        timer.reset()
        Trash(act, errors)
        expected += timer.active()
        clock.jump(1)
        crowded.run_due(3)
        Trash(act, errors)
        periodic.cancel()
    del periodic, timer
    gc.collect()
    for _ in range(5):
        clock.jump(1)
        while crowded.run_due():
            pass
    assert errors == []
    assert sorted(set(ran)) == list(range(40))
    assert len(crowded) == len(crowded.pending()) == MANY + len(others)


def test_finalisers_of_a_large_driver_that_is_garbage_may_still_use_it(pywheel, clock):
    seen, errors = [], []

    def last_words(timers):
        seen.append((len(timers), timers.call_later(1, nothing).cancel(), len(timers.pending())))

    timers = pywheel.Timers(clock)
    crowd(timers)
    item = Meddler(lambda timers=timers: last_words(timers), errors)
    item.itself = item
    timers.call_later(3, nothing, item)
    gone = weakref.ref(timers)
    del timers, item
    collect()
    collect()
    assert errors == []
    assert seen == [(MANY + 1, True, MANY + 1)]
    assert gone() is None


def test_threads_may_schedule_while_another_collects(pywheel):
    ran, over = [], threading.Event()

    def collect_again_and_again():
        while not over.is_set():
            gc.collect()

    def schedule(timers):
        app = App()
        for number in range(1_000):
            timers.call_later(number % 7 / 1000, ran.append, (number, [app]))
            timers.call_later(number % 7 / 1000, app.act, number, [app])
            timers.call_later(3600, app.act, number, [app]).cancel()

    with pywheel.ThreadTimers() as timers:
        crowd(timers)
        collector = threading.Thread(target=collect_again_and_again)
        threads = [threading.Thread(target=schedule, args=(timers,)) for _ in range(2)]
        for thread in (collector, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        while len(timers) > MANY:
            over.wait(0.01)
        over.set()
        collector.join()
        assert sorted(number for number, _ in ran) == sorted([*range(1_000)] * 2)
        assert len(timers.stop()) == MANY
