"""What begins an alarm, what ends it, and whom it is told."""

import json
import sys
import threading
import time

import pytest

from pywheel import BadJob, StoreAway
from pywheel.jobs import Counts
from pywheel.observe import alarm_channels, alarm_config
from pywheel.observe.alarm_channels import AlarmNotTold, Command, Log, Teller, Webhook
from pywheel.observe.alarms import Alarm, Alarms, Limits, Rules
from pywheel.observe.gauges import StoreGauges, TopicGauges
from tests.jobs.waiting import until
from tests.observe.receiver import receiver

__all__ = ["receiver"]

STORE = "sqlite:////jobs.db"


def topic(late=0.0, dead=0, workers=1, paused=False):
    return TopicGauges(Counts(delayed=1, dead=dead), paused, late, workers)


class Watch:
    """Looks at what a test says, a second apart."""

    def __init__(self, rules=None):
        self.alarms, self.now = Alarms(rules or Rules(), STORE), 0.0

    def __call__(self, seconds=1, **topics):
        """Look so often; return what begins and ends, by name, topic and whether it fires."""
        changes = []
        for _ in range(seconds):
            self.now += 1
            found = StoreGauges(topics, 1, {})
            changes += self.alarms.look(found, self.now, 1_000 + int(self.now * 1000))
        return [(alarm.name, alarm.topic, alarm.firing) for alarm in changes]

    def fails(self, seconds=1):
        changes = []
        for _ in range(seconds):
            self.now += 1
            changes += self.alarms.look(StoreAway("no answer"), self.now, int(self.now * 1000))
        return [(alarm.name, alarm.topic, alarm.firing) for alarm in changes]

    def text(self, name, of="mail"):
        return self.alarms.firing[name, of].text


@pytest.fixture
def watch():
    return Watch()


def test_a_store_that_is_well_is_no_alarm(watch):
    assert watch(100, mail=topic(late=0.5, dead=7), sms=topic(workers=0), night=topic(late=999, paused=True)) == []


def test_jobs_that_start_late_are_an_alarm_once_and_it_is_over_once(watch):
    assert watch(10, mail=topic(late=61)) == [("late", "mail", True)]
    text = watch.text("late")
    assert "jobs of topic 'mail' start 61 s late, the objective is 60 s; 1 workers handle it" in text
    assert "Start more" in text
    assert watch(100, mail=topic(late=55)) == []  # neither over the limit nor well below
    assert watch(40, mail=topic(late=1)) == [("late", "mail", False)]
    assert watch(100, mail=topic(late=1)) == []


def test_an_alarm_that_flutters_is_one_alarm(watch):
    changes = []
    for _ in range(50):
        changes += watch(5, mail=topic(late=90)) + watch(5, mail=topic())
    assert changes == [("late", "mail", True)]


def test_due_jobs_without_a_worker_are_an_alarm_after_a_while(watch):
    assert watch(10, mail=topic(late=10, workers=0)) == []
    assert watch(10, mail=topic(late=10, workers=1)) == []  # it was restarted
    assert watch(15, mail=topic(late=10, workers=0)) == []
    assert watch(10, mail=topic(late=10, workers=0)) == [("no_worker", "mail", True)]
    assert "pywheel work MODULE:QUEUE --topics mail; or let it wait: pywheel pause mail" in watch.text("no_worker")
    assert watch(60, mail=topic(late=0, workers=1)) == [("no_worker", "mail", False)]


def test_jobs_that_die_are_an_alarm_and_those_that_were_dead_before_are_none(watch):
    assert watch(10, mail=topic(dead=7)) == []
    assert watch(1, mail=topic(dead=9)) == [("dead", "mail", True)]
    assert "2 more jobs of topic 'mail' are dead, 9 in all" in watch.text("dead")
    assert "pywheel list --topic mail --state dead" in watch.text("dead")
    assert watch(2_000, mail=topic(dead=9)) == [("dead", "mail", False)]


def test_dead_jobs_that_were_retried_and_die_again_count_anew(watch):
    watch(10, mail=topic(dead=7))
    assert watch(10, mail=topic()) == []
    assert watch(1, mail=topic(dead=1)) == [("dead", "mail", True)]


def test_a_topic_that_is_new_counts_from_nothing():
    watch = Watch(Rules(Limits(dead=3)))
    watch(1, mail=topic())
    assert watch(1, mail=topic(), sms=topic(dead=2)) == []
    assert watch(1, mail=topic(), sms=topic(dead=3)) == [("dead", "sms", True)]


def test_deaths_that_are_far_apart_are_no_alarm():
    watch = Watch(Rules(Limits(dead=3), within=10))
    changes = []
    for count in range(1, 30):
        changes += watch(21, mail=topic(dead=count))
    assert changes == []


def test_a_store_that_does_not_answer_is_an_alarm_and_the_others_stay_as_they_were(watch):
    watch(1, mail=topic(late=90))
    assert watch.fails(15) == []
    assert watch.fails(30) == [("store_away", None, True)]
    text = watch.text("store_away", None)
    assert text.startswith(f"{STORE} has not answered for 44 s (no answer). Jobs wait")
    assert set(watch.alarms.firing) == {("late", "mail"), ("store_away", None)}
    assert watch(60, mail=topic(late=90)) == [("store_away", None, False)]


def test_topics_have_limits_of_their_own():
    quiet = Limits(late=None, dead=None, no_worker=None)
    watch = Watch(Rules(topics={"night.*": quiet, "*.slow": Limits(late=600)}))
    watch(1)
    bad = {"late": 300, "dead": 5}
    found = watch(2, **{"night.slow": topic(**bad), "day.slow": topic(**bad), "day": topic(**bad)})
    assert sorted(found) == [("dead", "day", True), ("dead", "day.slow", True), ("late", "day", True)]


def test_a_topic_that_is_gone_is_no_alarm_any_more(watch):
    watch(1, mail=topic(late=90))
    assert watch(60) == [("late", "mail", False)]
    assert watch.alarms._states == {}


def test_a_name_that_is_shell_is_quoted(watch):
    watch(1)
    watch(1, **{"a; rm -rf /": topic(dead=1)})
    assert "--topic 'a; rm -rf /' --state" in watch.text("dead", "a; rm -rf /")


def test_what_a_hundred_thousand_looks_leave_behind_is_bounded(watch):
    for n in range(2_000):
        watch(1, **{f"t{n}": topic(late=90, dead=1)})
    watch(700)
    assert watch.alarms._states == {}
    assert len(watch.alarms._since) == 0
    assert all(len(known) == 0 for known in watch.alarms._dead)


# ---- a teller -------------------------------------------------------------------------------------------------------


class Deaf:
    """A channel that notes what it is told, and may refuse it."""

    def __init__(self):
        self.messages, self.refuses, self.go_on = [], 0, threading.Event()
        self.go_on.set()

    def send(self, message):
        self.go_on.wait(60)
        if self.refuses:
            self.refuses -= 1
            raise AlarmNotTold("no")
        self.messages.append([(alarm["alarm"], alarm["topic"], alarm["state"]) for alarm in message["alarms"]])


def alarm(name="late", topic="mail", text="text"):
    return Alarm(name, topic, True, 1_000, 2.0, 1.0, text)


def firing(*alarms):
    return {(alarm.name, alarm.topic): alarm for alarm in alarms}


class Told:
    def __init__(self):
        self.channel = Deaf()
        self.teller = Teller(self.channel, STORE, between=30.0)

    def __call__(self, now, *alarms, over=()):
        self.teller.tell(firing(*alarms), over, now)
        self.teller.wait(60)
        messages, self.channel.messages = self.channel.messages, []
        return messages


@pytest.fixture
def told():
    return Told()


def test_an_alarm_is_told_once_and_its_end_once(told):
    assert told(0, alarm()) == [[("late", "mail", "firing")]]
    assert told(100, alarm()) == []
    assert told(200) == [[("late", "mail", "over")]]
    assert told(300) == []


def test_messages_are_rare_and_have_all_that_came_meanwhile(told):
    assert told(0, alarm()) == [[("late", "mail", "firing")]]
    assert told(5, alarm(), alarm("dead")) == []
    assert told(10, alarm(), alarm("dead"), alarm("late", "sms")) == []
    assert told(31, alarm(), alarm("dead"), alarm("late", "sms")) == [
        [("dead", "mail", "firing"), ("late", "sms", "firing")]
    ]


def test_an_alarm_that_came_and_went_between_two_messages_is_not_told(told):
    told(0, alarm())
    told(5, alarm(), alarm("dead"))
    assert told(40, alarm()) == []


def test_a_message_that_fails_is_sent_again_later(told, caplog):
    told.channel.refuses = 2
    assert told(0, alarm()) == []
    assert "an alarm was not told" in caplog.text
    assert told(10, alarm()) == []
    assert told(31, alarm()) == []
    assert told(32, alarm()) == []
    assert told(62, alarm()) == [[("late", "mail", "firing")]]


def test_a_channel_that_hangs_holds_up_nobody(told):
    told.channel.go_on.clear()
    told.teller.tell(firing(alarm()), (), 0.0)
    told.teller.tell(firing(alarm(), alarm("dead")), (), 100.0)
    assert told.teller.busy
    told.channel.go_on.set()
    told.teller.wait(60)
    assert told(200, alarm(), alarm("dead")) == [[("late", "mail", "firing")], [("dead", "mail", "firing")]]


def test_a_thousand_alarms_are_one_bounded_message():
    many = [alarm("late", f"t{n}") for n in range(1_000)]
    message = alarm_channels._message(STORE, many)
    assert (len(message["alarms"]), message["more"]) == (100, 900)
    assert message["text"].endswith("and 900 more")
    assert len(json.dumps(message)) < 30_000


def test_the_log_has_a_line_for_each(caplog):
    with caplog.at_level("INFO", "pywheel.alarms"):
        Log().send(alarm_channels._message(STORE, [alarm(), alarm("dead")._replace(firing=False)]))
    first, second = caplog.records
    assert (first.levelname, first.event, first.fields["alarm"], first.fields["state"]) == (
        "ERROR",
        "alarm",
        "late",
        "firing",
    )
    assert (second.levelname, second.getMessage()) == ("INFO", "alarm dead over: text")


# ---- real channels --------------------------------------------------------------------------------------------------


MESSAGE = alarm_channels._message(STORE, [alarm(text='ü "quoted"')])


def test_a_webhook_posts_json(receiver):
    Webhook(f"{receiver.url}/hook?key=1", {"Authorization": "Bearer x"}).send(MESSAGE)
    [(path, headers, message)] = receiver.got
    assert path == "/hook?key=1"
    assert (headers["Content-Type"], headers["Authorization"]) == ("application/json", "Bearer x")
    assert message == MESSAGE
    [told] = message["alarms"]
    assert told == {
        "alarm": "late",
        "topic": "mail",
        "state": "firing",
        "since": "1970-01-01T00:00:01.000+00:00",
        "value": 2.0,
        "limit": 1.0,
        "text": 'ü "quoted"',
    }


@pytest.mark.parametrize("status", [302, 307, 400, 404, 410, 500, 503])
def test_any_answer_but_success_is_none_and_no_redirect_is_followed(receiver, status):
    receiver.status, receiver.location = status, f"{receiver.url}/elsewhere"
    with pytest.raises(AlarmNotTold, match=f"http://127.0.0.1 answered {status}"):
        Webhook(f"{receiver.url}/secret").send(MESSAGE)
    assert len(receiver.got) == 1


def test_a_webhook_that_is_not_there_is_an_error_without_its_address(receiver):
    with pytest.raises(AlarmNotTold, match="refused") as error:
        Webhook("http://127.0.0.1:9/secret").send(MESSAGE)
    assert "secret" not in str(error.value)


def test_a_webhook_that_says_nothing_is_left(monkeypatch):
    import socket

    monkeypatch.setattr(alarm_channels, "_TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(AlarmNotTold, match=r"timed out|TimeoutError"):
        Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/").send(MESSAGE)


@pytest.mark.parametrize("url", ["", "example.org", "file:///etc/passwd", "ftp://example.org/", "http://"])
def test_what_is_no_webhook_is_refused(url):
    with pytest.raises(BadJob, match="a webhook is an address"):
        Webhook(url)


def test_a_command_gets_the_message_on_its_standard_input(tmp_path):
    file = tmp_path / "got"
    Command([sys.executable, "-c", f"import sys; open({str(file)!r}, 'wb').write(sys.stdin.buffer.read())"]).send(
        MESSAGE
    )
    assert json.loads(file.read_bytes()) == MESSAGE


def test_a_command_that_fails_or_is_not_there_is_an_error():
    with pytest.raises(AlarmNotTold, match="exit code 3"):
        Command([sys.executable, "-c", "raise SystemExit(3)"]).send(MESSAGE)
    with pytest.raises(AlarmNotTold, match="No such file"):
        Command(["/no/such/program"]).send(MESSAGE)


def test_a_command_that_reads_nothing_is_told_all_the_same():
    Command(["true"]).send({**MESSAGE, "text": "x" * 1_000_000})


def test_a_command_that_hangs_is_killed_and_what_it_started(monkeypatch, tmp_path):
    monkeypatch.setattr(alarm_channels, "_COMMAND", 1)
    file = tmp_path / "alive"
    with pytest.raises(AlarmNotTold, match="was killed"):
        Command(["/bin/sh", "-c", f"while :; do echo >> {file}; sleep 0.02; done & wait"]).send(MESSAGE)
    written = file.stat().st_mtime_ns
    time.sleep(0.1)
    assert file.stat().st_mtime_ns == written


# ---- the file -------------------------------------------------------------------------------------------------------


def test_the_file_in_the_documentation_says_what_it_says(tmp_path):
    file = tmp_path / "alarms.toml"
    text = alarm_config.__doc__.partition("\n\n")[2]
    file.write_text("\n".join(line.removeprefix("    ") for line in text.splitlines()))
    watching = alarm_config.read(file, alarm_config.Watching())
    assert watching.rules.limits == Limits(late=30.0, dead=5, no_worker=15.0)
    assert watching.rules.of("reports.daily") == Limits(late=3600.0, dead=5, no_worker=15.0)
    assert (watching.every, watching.rules.store_away) == (5.0, 15.0)
    assert [str(channel) for channel in watching.channels] == ["webhook https://example.org", "command mail"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("x", "alarms.toml: "),
        ("[limit]", "the file has no 'limit', did you mean"),
        ("[limits]\nlatee = 3", "latee"),
        ("[limits]\nlate = 'soon'", "late"),
        ("[limits]\nlate = true", "late"),
        ("[limits]\ndead = 0", "dead must be"),
        ("[limits]\ndead = true", "dead must be"),
        ("[watch]\nevery = false", "every"),
        ("[watch]\nevery = 0", "every"),
        ("[watch]\nevery = '2d'", "a day at most"),
        ("limits = 3", "limits is a table"),
        ("[topics]\nmail = 3", "mail is a table"),
        ("to = 3", "[[to]]"),
        ("[[to]]", "[[to]] has a webhook"),
        ("[[to]]\nwebhook = 'mail'", "a webhook is an address"),
        ("[[to]]\nwebhook = 'http://x'\ncommand = 'y'", "[[to]] has"),
        ("[[to]]\nwebhook = 'http://x'\nheaders = {a = 3}", "headers are text"),
        ("[[to]]\ncommand = []", "needs a program"),
        ("[[to]]\ncommand = ['a', 3]", "[[to]] has"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path, content, said):
    file = tmp_path / "alarms.toml"
    file.write_text(content)
    with pytest.raises(BadJob) as error:
        alarm_config.read(file, alarm_config.Watching())
    assert said in str(error.value)


def test_false_turns_a_limit_off(tmp_path):
    file = tmp_path / "alarms.toml"
    file.write_text("[limits]\nlate = false\ndead = false\nno_worker = false\n[watch]\nstore_away = false")
    rules = alarm_config.read(file, alarm_config.Watching()).rules
    assert rules.limits == Limits(None, None, None)
    watch = Watch(rules)
    assert watch(9, mail=topic(late=99, dead=9, workers=0)) + watch.fails(99) == []


def test_the_teller_of_a_webhook_tells_it(receiver):
    teller = Teller(Webhook(receiver.url), STORE, 0.0)
    teller.tell(firing(alarm()), (), 0.0)
    until(lambda: receiver.got)
    teller.wait(60)
    assert receiver.got[0][2]["text"] == "text"
