"""Ticks: their times, also when clocks change and in leap years, and which of them are made up for."""

from datetime import UTC, datetime

import pytest

from pywheel import BadOption, ExtraMissing, JobQueue
from pywheel.jobs import cron
from pywheel.jobs.schedule import LATE, MOST_MISSED, Schedule, one_of, schedule_name, tick_of, timing, written
from tests.often import often

ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "UTC"]
EXPRESSIONS = ["30 2 * * *", "0 * * * *", "*/30 2 * * *", "0 2,3 * * *", "15,45 1-3 * * *", "0 12 L * *"]


def ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def ticks(expression, tz, after, count):
    found, time = [], ms(after)
    for _ in range(count):
        time = cron.after(expression, tz, time)
        found.append(written(time))
    return found


@pytest.mark.parametrize(
    ("expression", "tz", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", ["03-28T01:30", "03-29T01:00", "03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["10-25T00:30", "10-26T01:30"]),
        ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30", [f"10-25T0{hour}:00" for hour in range(4)]),
    ],
    ids=["left out in spring", "twice in autumn", "every hour"],
)
def test_a_local_time_comes_once_also_when_clocks_change(expression, tz, after, expected):
    assert ticks(expression, tz, f"{after}:00Z", len(expected)) == [f"2026-{tick}:00Z" for tick in expected]


def test_the_29th_of_february_comes_in_leap_years():
    assert ticks("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2) == ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]


@pytest.mark.parametrize("tz", often(ZONES, 2))
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_last_tick_is_the_one_after_which_none_has_come_since(expression, tz):
    for day in ("2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z", "2026-04-04T12:00:00Z"):
        noon, found, time = ms(day), [], ms(day) - 33 * 86_400_000
        while (time := cron.after(expression, tz, time)) < noon + 2 * 86_400_000:
            found.append(time)
        for moment in range(noon - 86_400_000, noon + 86_400_000, 7_247_000):
            assert cron.until(expression, tz, moment) == max(tick for tick in found if tick <= moment)


@pytest.mark.parametrize("expression", ["* * * * * *", "* * * * *", "*/15 * * * *", "0 * * * *", "0 0 1 1 *"])
def test_the_last_tick_is_found_in_few_steps(monkeypatch, expression):
    steps, after = [], cron.after
    monkeypatch.setattr(cron, "after", lambda *args: steps.append(args) or after(*args))
    assert cron.until(expression, "Europe/Berlin", ms("2026-01-01T12:30:30Z"))
    assert len(steps) < 20


def test_every_comes_at_the_multiples_since_1970_and_not_before_it_was_made():
    schedule = Schedule("s", "t", every=900_000, since=ms("2026-01-01T12:00:30Z"))
    assert schedule.until(ms("2026-01-01T12:14:59Z")) is None
    assert written(schedule.after(0)) == "2026-01-01T12:15:00Z"
    assert schedule.after(0) == schedule.after(ms("2026-01-01T12:00:01Z"))
    assert written(schedule.after(ms("2026-01-01T12:15:00Z"))) == "2026-01-01T12:30:00Z"
    assert written(schedule.until(ms("2026-01-01T12:15:00Z"))) == "2026-01-01T12:15:00Z"


def test_of_missed_ticks_none_one_or_all_are_made_up_for():
    now = ms("2026-01-01T12:30:30Z")

    def missed(catch_up):
        schedule = Schedule("s", "t", every=600_000, catch_up=catch_up)
        return [written(tick)[11:16] for tick in schedule.missed(now - 2_000_000, now)]

    assert missed("none") == missed("one") == ["12:30"]
    assert missed("all") == ["12:00", "12:10", "12:20", "12:30"]
    assert Schedule("s", "t", every=600_000).missed(0, now + LATE) == []
    assert len(Schedule("s", "t", every=1_000, catch_up="all").missed(0, now)) == MOST_MISSED
    at_most_31_days = Schedule("s", "t", cron="0 0 * * *", catch_up="all").missed(0, now)
    assert len(at_most_31_days) == 31


def test_a_missed_tick_is_as_late_as_its_due_time_by_the_lot_that_its_schedule_had_then():
    schedule = Schedule("s", "t", every=60_000, jitter=600_000)
    now = ms("2026-01-01T12:30:30Z")
    wanted = [tick for tick in schedule.ticks(now - 900_000, now) if schedule.due(tick) >= now - LATE]
    assert 0 < len(wanted) < 11
    changed = Schedule("s", "t", every=60_000).following(schedule, now)
    assert schedule.missed(0, now) == changed.missed(0, now) == wanted


def test_a_tick_comes_later_by_lot_by_the_same_everywhere():
    schedule = Schedule("s", "t", every=3_600_000, jitter=600_000)
    dues = {schedule.due(tick) - tick for tick in schedule.ticks(0, 100 * 3_600_000)}
    assert len(dues) > 90
    assert all(0 <= late < 600_000 for late in dues)
    assert {schedule.due(tick) - tick for tick in schedule.ticks(0, 100 * 3_600_000)} == dues


def test_a_schedule_is_kept_as_it_is_and_what_a_newer_one_adds_is_left_out():
    schedule = Schedule("s", "t", b"\xff\0", cron="0 3 * * *", tz="Europe/Berlin", headers={"a": "b"}, since=7)
    assert Schedule.from_note("s", schedule.kept()) == schedule
    assert Schedule.from_note("s", schedule.kept()[:-1] + b', "colour": "red"}') == schedule


def test_versions_follow_each_other_alike_and_never_come_again():
    schedule = Schedule("s", "t", every=60_000)
    first = schedule.following(None, 1)
    other = Schedule("s", "t", every=61_000).following(first, 2)
    assert first.version == schedule.following(None, 5).version
    assert len({first.version, other.version, schedule.following(other, 3).version}) == 3


def test_a_job_says_which_tick_it_is():
    schedule = Schedule("s", "t", every=60_000, headers={"a": "b"})
    job = schedule.job(ms("2026-01-01T12:00:00Z"))
    assert (job.key, job.headers["a"]) == ("s@2026-01-01T12:00:00Z", "b")
    assert datetime.fromisoformat(job.headers["pywheel-tick"]) == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "expression", "tz", "says"),
    [
        (None, None, None, "one of them"),
        ("1m", "* * * * *", None, "one of them"),
        ("999ms", None, None, "call_every"),
        ("1m", None, "UTC", "tz= is for cron="),
        (None, "0 3 * *", None, "five fields"),
        (None, "0 25 * * *", None, "Bad hour"),
        (None, "0 0 30 2 *", None, "day"),
        (None, 7, None, "text"),
        (None, "0 3 * * *", "Europe/Berlim", "tzdata"),
        (None, "0 3 * * *", "../etc/passwd", "no time zone"),
        (None, "0 3 * * *", 7, "name of a zone"),
        ("1m " * 34, None, None, "at most 100 are allowed"),
        (None, "0 " + "3," * 250 + "4 * * *", None, "at most 500 are allowed"),
        (None, "0 3 * * *", "Europe/" + "B" * 100, "at most 100 are allowed"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused_and_says_how_it_would(every, expression, tz, says):
    with pytest.raises(BadOption, match=says):
        timing(every, expression, tz)


def test_words_and_names_that_make_no_sense_are_refused():
    with pytest.raises(BadOption, match="did you mean queue"):
        one_of("queu", "overlap", ("skip", "queue", "overlap"))
    for name in ("", 7, "x" * 181, "a\nb"):
        with pytest.raises(BadOption, match="180"):
            schedule_name(name)


def test_without_cronsim_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    cron._cronsim.cache_clear()
    with pytest.raises(ExtraMissing, match=r"pywheel-timer\[cron\]"):
        cron.checked("* * * * *", "UTC")


@pytest.mark.parametrize("text", ["soon", "0001-01-01T00:00:00Z", "2026-01-01"])
def test_a_header_of_somebody_else_is_no_tick(text):
    """Nor is a time that is no moment, or before those that schedules count with."""
    with JobQueue("memory:") as queue:
        job = queue.get(queue.put("t", headers={"pywheel-tick": text}))
    assert tick_of(job) is None
