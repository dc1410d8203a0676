"""Group commit: a thread that finds nobody committing commits for all."""

import threading

import pytest

from pywheel import StoreBusy, StoreError
from pywheel.stores.group_commit import GroupCommit
from tests.jobs.waiting import until


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


def run_crowd(leader, recorder, names):
    """Let one caller commit, and the others arrive meanwhile; return what each got."""
    results = {}

    def call(name):
        try:
            results[name] = leader.apply([name])
        except Exception as error:
            results[name] = error

    threads = [threading.Thread(target=call, args=(names[0],))]
    threads[0].start()
    assert recorder.entered.wait(60)
    for name in names[1:]:
        thread = threading.Thread(target=call, args=(name,))
        thread.start()
        threads.append(thread)
    while len(leader._waiting) < len(names) - 1:
        threading.Event().wait(0.001)
    recorder.gate.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return results


def test_those_who_arrive_during_a_commit_share_the_next(leader, recorder):
    results = run_crowd(leader, recorder, list("abcdef"))
    assert results == {name: [f"done {name}"] for name in "abcdef"}
    assert len(recorder.commits) == 2
    assert sorted(recorder.commits[1]) == list("bcdef")


def test_what_one_caller_gets_wrong_fails_for_that_caller_alone(leader, recorder):
    recorder.fail["c"] = OverflowError("too big")
    results = run_crowd(leader, recorder, list("abcd"))
    assert isinstance(results.pop("c"), OverflowError)
    assert results == {name: [f"done {name}"] for name in "abd"}


def test_a_store_that_fails_fails_for_all_and_works_again(leader, recorder):
    recorder.fail["c"] = StoreError("no room")
    results = run_crowd(leader, recorder, list("abcd"))
    assert [type(results[name]) for name in "bcd"] == [StoreError] * 3
    assert leader.apply(["e"]) == ["done e"]


def test_an_interrupted_leader_tells_the_others_and_hands_on(leader, recorder):
    recorder.fail["b"] = KeyboardInterrupt()
    seen = []

    def interrupted():
        try:
            leader.apply(["b"])
        except KeyboardInterrupt:
            seen.append("interrupted")

    thread = threading.Thread(target=interrupted)
    recorder.gate.set()
    thread.start()
    thread.join(60)
    assert seen == ["interrupted"]
    assert leader.apply(["c"]) == ["done c"]


def test_many_threads_all_get_their_own_outcome():
    leader = GroupCommit(lambda ops, until, commit: [op * 2 for op in ops], lambda error: False, 60)
    wrong = []

    def call(start):
        pairs = ((number, -number) for number in range(start, start + 300))
        wrong.extend(pair for pair in pairs if leader.apply(pair) != [pair[0] * 2, pair[1] * 2])

    threads = [threading.Thread(target=call, args=(1000 * n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []


def test_callers_who_come_back_share_each_commit():
    commits = []

    def transact(ops, until, commit):
        commits.append(len(ops))
        threading.Event().wait(0.01)
        return ops

    leader = GroupCommit(transact, lambda error: False, 60, gather=0.5)

    def call(number):
        for _ in range(20):
            assert leader.apply([number]) == [number]

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(commits) == 80
    assert len(commits) <= 30  # 40 if the first who comes back went alone each time


def test_nobody_waits_for_callers_who_have_gone():
    def transact(ops, limit, commit):
        if ops == [1]:
            begun.set()
            until(lambda: leader._waiting)
        return ops

    begun = threading.Event()
    leader = GroupCommit(transact, lambda error: False, 60, gather=1)
    first = threading.Thread(target=lambda: leader.apply([1]))
    first.start()
    assert begun.wait(60)
    assert leader.apply([2]) == [2]
    first.join()
    assert leader._crowd == 1  # the next one waits for nobody


def test_a_call_that_nobody_begins_with_in_time_is_busy_and_never_happens(recorder):
    leader = GroupCommit(recorder, lambda error: False, 0.2)
    busy = []

    def late():
        try:
            leader.apply(["late"])
        except StoreBusy as error:
            busy.append(error)

    first = threading.Thread(target=leader.apply, args=(["first"],))
    first.start()
    assert recorder.entered.wait(60)
    second = threading.Thread(target=late)
    second.start()
    second.join(60)
    recorder.gate.set()
    first.join(60)
    assert len(busy) == 1
    assert leader.apply(["next"]) == ["done next"]
    assert recorder.commits == [["first"], ["next"]]


def test_a_call_out_of_a_call_of_the_same_thread_is_busy_and_the_outer_one_goes_on():
    seen = []

    def transact(ops, until, commit):
        if ops == ["outer"]:
            try:
                leader.apply(["inner"])
            except StoreBusy as error:
                seen.append(error)
        return ops

    leader = GroupCommit(transact, lambda error: False, 60)
    assert leader.apply(["outer"]) == ["outer"]
    assert len(seen) == 1
    assert leader.apply(["next"]) == ["next"]


def test_a_token_that_was_never_given_back_is_found_by_its_thread(leader, recorder):
    recorder.gate.set()
    leader._token.acquire()  # as if signals had ended every attempt to give it back
    assert leader.apply(["a"]) == ["done a"]
    assert not leader._token._is_owned()


@pytest.mark.parametrize(("stored", "outcome"), [(True, "done b"), (False, "done b"), (None, "StoreError")])
def test_who_shared_an_interrupted_commit_learns_how_it_ended_or_goes_again(stored, outcome):
    began, crowd = threading.Event(), threading.Event()
    commits = []

    def transact(ops, until, commit):
        commits.append(list(ops))
        began.set()
        crowd.wait(60)
        if commit is not None and "interrupted" in ops:
            commit.outcomes = [f"done {op}" for op in ops]
            commit.stored = stored
            raise KeyboardInterrupt
        return [f"done {op}" for op in ops]

    leader = GroupCommit(transact, lambda error: False, 60)
    results = {}

    def call(name):
        try:
            results[name] = leader.apply([name])[0]
        except BaseException as error:
            results[name] = type(error).__name__

    threads = []
    for name in ("first", "interrupted", "b"):
        threads.append(threading.Thread(target=call, args=(name,)))
        threads[-1].start()
        assert began.wait(60)
        while len(leader._waiting) < len(threads) - 1:
            threading.Event().wait(0.001)
    crowd.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert results == {"first": "done first", "interrupted": "KeyboardInterrupt", "b": outcome}
    assert sum("b" in ops for ops in commits) == (2 if stored is False else 1)
