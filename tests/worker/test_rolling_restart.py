"""A supervisor replaces its workers one by one on request, and some worker is always at work."""

import os
import signal
import time
from itertools import count

import pytest

from pywheel.jobs import State
from tests.jobs.waiting import finished, until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")]


def test_a_hang_up_signal_replaces_all_while_somebody_is_always_up(shop):
    supervisor = shop.start(2)
    first = shop.up()
    shop.version("2")
    supervisor.send_signal(signal.SIGHUP)
    fewest = 2
    while set(first) & set(shop.status("all")):
        fewest = min(fewest, len(shop.status("up")))
        id = shop.queue.put("t", b"x")
        assert finished(shop.queue, id).attempt == 1
    assert fewest == 2
    assert not set(first) & set(shop.up())
    id = shop.queue.put("t", b"x")
    finished(shop.queue, id)
    assert shop.started(id)[0][2] == "2"
    assert shop.said("all workers are replaced")


def test_hang_up_signals_during_a_rolling_restart_end_with_all_replaced_and_the_number_wanted(shop):
    supervisor = shop.start(2)
    first = shop.up()
    for number in count():
        shop.version(str(number))
        supervisor.send_signal(signal.SIGHUP)
        time.sleep(0.15)
        assert len(shop.status("up")) >= 2
        if number > 4 and shop.said("beginning again with the replacement"):
            break

    def is_by_the_last():
        id = shop.queue.put("t", b"x")
        finished(shop.queue, id)
        return shop.started(id)[0][2] == str(number)

    until(lambda: all(is_by_the_last() for _ in range(10)))
    assert not set(first) & set(shop.up())
    assert shop.said("all workers are replaced")


def test_a_new_version_that_kills_its_process_leaves_the_old_workers_at_work_until_it_is_mended(shop):
    supervisor = shop.start(2)
    first = shop.up()
    shop.version("crashing")
    supervisor.send_signal(signal.SIGHUP)
    until(lambda: shop.said("the new version does not start; 2 workers of the old one go on"))
    assert not shop.said("the next one starts")
    assert shop.up() == first
    id = shop.queue.put("t", b"x")
    assert finished(shop.queue, id).state is State.DONE
    shop.version("3")
    supervisor.send_signal(signal.SIGHUP)
    until(lambda: shop.said("all workers are replaced"))
    assert not set(first) & set(shop.up())
