"""The workers' notes about the ends of jobs: small, and additive."""

from pywheel.jobs.ends import FIVE, HOUR, Ends, ends_note, ends_of, hour_of

AT = 472_222 * HOUR + 7 * FIVE


def test_notes_of_several_workers_add_up_by_topic_and_five_minutes():
    first = {"mail": {AT: Ends(5, 1, 1, 40), AT + FIVE: Ends(2)}, "\u00e9": {AT: Ends(1)}}
    second = {"mail": {AT: Ends(3, 2, 0, 70)}}
    notes = [ends_note("a@1", AT, first), ends_note("b@2", AT, second)]
    assert [note.name for note in notes] == [hour_of(AT) + "a@1", hour_of(AT) + "b@2"]
    found = ends_of(AT + 3, [note.value for note in notes])
    assert found == {"mail": {AT: Ends(8, 3, 1, 70), AT + FIVE: Ends(2)}, "\u00e9": {AT: Ends(1)}}
    assert hour_of(AT) < hour_of(AT + HOUR) < hour_of(AT + 100_000 * HOUR)


def test_a_note_is_bounded_and_loses_no_job():
    """Of very many topics those with the most jobs have their names, the others are one."""
    full = dict.fromkeys(range(AT - 7 * FIVE, AT + 5 * FIVE, FIVE), Ends(10**7, 10**6, 10**6, 10**8))
    slots = {f"{number:0>99}": full for number in range(500)} | {
        "busy": dict.fromkeys(full, Ends(10**9)),
        "x" * 101: full,
    }
    note = ends_note("w" * 300, AT, slots)
    assert len(note.value) < 64 << 10
    assert len(note.name) <= 200
    found = ends_of(AT, [note.value])
    assert "busy" in found
    assert "x" * 101 not in found
    whole = sum(each.done for of in found.values() for each in of.values())
    assert whole == 12 * (501 * 10**7 + 10**9)


def test_what_is_no_such_note_counts_as_none():
    lists = b'{"mail": 3}', b'{"mail": {"x": [1]}}', b'{"mail": {"1": [1, 2, 3, 4, 5]}}', b'{"mail": {"1": [1e400]}}'
    for value in (b"", b"[]", b"{", b"\xff", b"[" * 60_000, *lists):
        assert ends_of(AT, [value, b'{"a":{"0":[1]}}']) == {"a": {AT - 7 * FIVE: Ends(1)}}
