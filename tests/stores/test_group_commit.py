"""Group commit: who finds nobody committing commits for all."""

import threading

import pytest

from pywheel import StoreError
from pywheel.stores.group_commit import GroupCommit


class Recorder:
    """Stands for the store: remembers what was committed together."""

    def __init__(self):
        self.commits = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.fail = {}

    def __call__(self, ops):
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
    return GroupCommit(recorder, lambda error: not isinstance(error, StoreError))


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
    leader = GroupCommit(lambda ops: [op * 2 for op in ops], lambda error: False)
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
