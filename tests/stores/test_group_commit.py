"""Group commit: a thread that finds nobody committing commits for all."""

import threading
from types import SimpleNamespace

import pytest

from pywheel import StoreBusy, StoreError, StoreFull
from pywheel.stores.group_commit import GroupCommit, _Call
from pywheel.stores.relational.lanes import Held, Lane
from tests.jobs.waiting import until
from tests.stores.calls import ended


class Recorder:
    """Stands for the store: remembers what was committed together."""

    def __init__(self):
        self.commits = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.fail = {}

    def __call__(self, ops, until, commit):
        self.commits.append(list(ops))
        self.entered.set()
        if len(self.commits) == 1:
            self.gate.wait(60)
        for op in ops:
            if op in self.fail:
                raise self.fail[op]
        return [f"done {op}" for op in ops]


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def leader(recorder):
    return GroupCommit(recorder, lambda error: isinstance(error, OverflowError), 60)


def run_crowd(pool, leader, recorder, names):
    """Let one caller commit, and the others arrive meanwhile; return what each got."""
    calls = {names[0]: pool.submit(leader.apply, [names[0]])}
    assert recorder.entered.wait(60)
    calls |= {name: pool.submit(leader.apply, [name]) for name in names[1:]}
    until(lambda: len(leader._waiting) == len(names) - 1)
    recorder.gate.set()
    return {name: ended(call) for name, call in calls.items()}


def test_those_who_arrive_during_a_commit_share_the_next(pool, leader, recorder):
    results = run_crowd(pool, leader, recorder, list("abcdef"))
    assert results == {name: [f"done {name}"] for name in "abcdef"}
    assert [sorted(ops) for ops in recorder.commits] == [["a"], list("bcdef")]


def test_what_one_caller_gets_wrong_fails_for_that_caller_alone(pool, leader, recorder):
    recorder.fail["c"] = OverflowError("too big")
    results = run_crowd(pool, leader, recorder, list("abcd"))
    assert isinstance(results.pop("c"), OverflowError)
    assert results == {name: [f"done {name}"] for name in "abd"}


def test_a_store_that_fails_fails_for_all_and_works_again(pool, leader, recorder):
    recorder.fail["c"] = StoreError("no room")
    results = run_crowd(pool, leader, recorder, list("abcd"))
    assert [type(results[name]) for name in "bcd"] == [StoreError] * 3
    assert leader.apply(["e"]) == ["done e"]


def test_where_one_callers_commands_find_no_room_those_of_the_others_go_on_without_them(pool, leader, recorder):
    recorder.fail["c"] = StoreFull("no room")
    results = run_crowd(pool, leader, recorder, list("abcd"))
    assert isinstance(results.pop("c"), StoreFull)
    assert results == {name: [f"done {name}"] for name in "abd"}


def test_where_commands_of_asyncio_tasks_find_no_room_together_in_a_database_others_are_stored(leader, recorder):
    recorder.gate.set()
    recorder.fail["b"] = StoreFull("no room")
    lane = Lane(SimpleNamespace(_seconds=60), Held())
    lane.commits = leader
    first, full, last = lane.tried(list("abc"))
    assert (first, last) == ("done a", "done c")
    assert isinstance(full, StoreFull)


def test_a_call_that_comes_to_lead_when_its_time_is_over_is_not_tried(leader, recorder):
    with pytest.raises(StoreBusy):
        leader._share(_Call(["a"], until=0))
    assert recorder.commits == []
    recorder.gate.set()
    assert leader.apply(["b"]) == ["done b"]


def test_an_interrupted_leader_hands_on(pool, leader, recorder):
    recorder.fail["b"] = KeyboardInterrupt()
    recorder.gate.set()
    assert isinstance(ended(pool.submit(leader.apply, ["b"])), KeyboardInterrupt)
    assert leader.apply(["c"]) == ["done c"]


def test_many_threads_all_get_their_own_outcome(pool):
    leader = GroupCommit(lambda ops, until, commit: [op * 2 for op in ops], lambda error: False, 60)

    def wrong_of(start):
        pairs = ((number, -number) for number in range(start, start + 300))
        return [pair for pair in pairs if leader.apply(pair) != [pair[0] * 2, pair[1] * 2]]

    wrong = [pair for some in pool.map(wrong_of, range(0, 12_000, 1_000)) for pair in some]
    assert wrong == []


def test_callers_who_come_back_share_each_commit(pool, monkeypatch):
    monkeypatch.setattr("pywheel.stores.group_commit._LONGEST", 60)  # they may come back slowly
    commits, together = [], threading.Barrier(4)

    def transact(ops, until, commit):
        commits.append(len(ops))
        threading.Event().wait(0.01)
        return ops

    def come_again(number):
        together.wait(60)
        return [leader.apply([number]) for _ in range(20)]

    leader = GroupCommit(transact, lambda error: False, 60, gather=100)
    assert list(pool.map(come_again, range(4))) == [[[number]] * 20 for number in range(4)]
    assert sum(commits) == 80
    assert len(commits) <= 30  # 40 if the first who comes back went alone each time


def test_nobody_waits_for_callers_who_have_gone(pool):
    def transact(ops, limit, commit):
        if ops == [1]:
            begun.set()
            until(lambda: leader._waiting)
        return ops

    begun = threading.Event()
    leader = GroupCommit(transact, lambda error: False, 60, gather=1)
    first = pool.submit(leader.apply, [1])
    assert begun.wait(60)
    assert leader.apply([2]) == [2]
    first.result(60)
    assert leader._crowd == 1  # the next one waits for nobody


def test_a_call_that_nobody_begins_with_in_time_is_busy_and_never_happens(pool, recorder):
    leader = GroupCommit(recorder, lambda error: False, 0.2)
    first = pool.submit(leader.apply, ["first"])
    assert recorder.entered.wait(60)
    assert isinstance(ended(pool.submit(leader.apply, ["late"])), StoreBusy)
    recorder.gate.set()
    first.result(60)
    assert leader.apply(["next"]) == ["done next"]
    assert recorder.commits == [["first"], ["next"]]


def test_a_call_out_of_a_call_of_the_same_thread_is_busy_and_the_outer_one_goes_on():
    def transact(ops, until, commit):
        if ops == ["outer"]:
            with pytest.raises(StoreBusy):
                leader.apply(["inner"])
        return ops

    leader = GroupCommit(transact, lambda error: False, 60)
    assert leader.apply(["outer"]) == ["outer"]
    assert leader.apply(["next"]) == ["next"]


def test_a_token_that_was_never_given_back_is_found_by_its_thread(leader, recorder):
    recorder.gate.set()
    leader._token.acquire()  # as if signals had ended every attempt to give it back
    assert leader.apply(["a"]) == ["done a"]
    assert not leader._token._is_owned()


@pytest.mark.parametrize(("stored", "outcome"), [(True, ["done b"]), (False, ["done b"]), (None, StoreError)])
def test_who_shared_an_interrupted_commit_learns_how_it_ended_or_goes_again(pool, recorder, stored, outcome):
    def transact(ops, until, commit):
        outcomes = recorder(ops, until, commit)
        if commit is not None and "interrupted" in ops:
            commit.outcomes, commit.stored = outcomes, stored
            raise KeyboardInterrupt
        return outcomes

    leader = GroupCommit(transact, lambda error: False, 60)
    results = run_crowd(pool, leader, recorder, ["first", "interrupted", "b"])
    assert results["first"] == ["done first"]
    assert isinstance(results["interrupted"], KeyboardInterrupt)
    assert results["b"] == outcome or type(results["b"]) is outcome
    assert sum("b" in ops for ops in recorder.commits) == (2 if stored is False else 1)


def test_nobody_takes_over_from_who_forks_however_long_it_lasts(pool, leader, recorder, monkeypatch):
    """A thread within SQLite would copy a locked mutex into the child, which would wait for it for ever."""
    recorder.gate.set()
    refused, take_over = [], leader._take_over
    monkeypatch.setattr(leader, "_take_over", lambda: refused.append(not take_over()) or not refused[-1])
    assert leader.pause()
    call = pool.submit(leader.apply, ["a"])
    until(lambda: len(refused) > 1)
    assert (refused, recorder.commits) == ([True] * len(refused), [])
    with pytest.raises(StoreBusy):
        leader.apply(["a signal handler's"])
    leader.resume()
    assert ended(call) == ["done a"]
    assert leader.apply(["b"]) == ["done b"]
