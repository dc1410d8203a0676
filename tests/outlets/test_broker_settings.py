"""The common settings of outlets into brokers, from a program or from a config file."""

import asyncio
import json
import sys
from types import SimpleNamespace

import pytest

from pywheel import BadOption, GiveUp
from pywheel.outlets import kind
from pywheel.outlets.broker import NotConfirmed
from pywheel.outlets.config import ConfigError, load
from tests.outlets.jobs import a_job
from tests.outlets.loops import on_a_loop

BROKERS = {
    "kafka": ({"servers": "localhost:9092"}, "confluent_kafka"),
    "nats": ({"url": "nats://localhost"}, "nats.aio.client"),
    "rabbitmq": ({"url": "amqp://localhost"}, "aiormq"),
    "redis": ({"url": "redis://localhost"}, "redis.asyncio"),
}


def made(name, tmp_path, **table):
    words = {"kind": name, **table}
    file = tmp_path / "outlets.toml"
    file.write_text("".join(["[outlets.x]\n", *(f"{word} = {json.dumps(value)}\n" for word, value in words.items())]))
    [configured] = load(file)
    return configured.outlet


@pytest.mark.parametrize("name", BROKERS)
def test_a_config_file_says_where_what_is_allowed_and_how_long(name, tmp_path):
    outlet = made(name, tmp_path, **BROKERS[name][0], allow=["orders.*"], timeout="3s")
    assert (outlet.name, outlet.allow, outlet.timeout) == ("x", ("orders.*",), 3.0)
    with pytest.raises(ConfigError, match=r"\[outlets\.x\] alow: is not known here, did you mean allow"):
        made(name, tmp_path, **BROKERS[name][0], alow=["orders.*"])


@pytest.mark.parametrize(("name", "place"), [("redis", "stream"), ("nats", "subject"), ("rabbitmq", "routing_key")])
def test_a_config_file_that_names_a_place_allows_no_other(tmp_path, name, place):
    outlet = made(name, tmp_path, **BROKERS[name][0], **{place: "ours"})
    with pytest.raises(GiveUp, match=r"'theirs'.*allow"):
        outlet.place_of(a_job(to="theirs"))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"amqp_timestamp": "0" * 20 + "9" * 15}, "amqp-timestamp must be"),
        ({"amqp_priority": "0" * 20 + "999"}, "amqp-priority must be"),
        ({"amqp_expiration": "0" * 20 + "9" * 30}, "amqp-expiration must be"),
        ({"amqp_headers": "[" * 30_000}, "amqp-headers is not JSON"),
        ({"amqp_headers": '{"a": ' * 600 + "1" + "}" * 600}, "cannot represent it"),
    ],
)
def test_numbers_behind_zeros_and_headers_nested_too_deep_are_for_no_message_of_rabbitmq(tmp_path, headers, said):
    async def encoded(body, *, properties, **_):
        properties.marshal()

    link = SimpleNamespace(channel=SimpleNamespace(basic_publish=encoded))
    with pytest.raises(GiveUp, match=said):
        asyncio.run(made("rabbitmq", tmp_path, **BROKERS["rabbitmq"][0]).publish(link, a_job(to="q", **headers)))


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"CC": "q"}, "CC must be a list of routing keys"),
        ({"BCC": "q"}, "BCC must be a list of routing keys"),
        *(({"amqp_headers": json.dumps({"CC": copies})}, "CC must be a list") for copies in ("q", {"a": 1}, [5], None)),
        ({"amqp_headers": '{"a": NaN}'}, "NaN is not a finite number"),
        ({"amqp_headers": '{"a": [-Infinity]}'}, "-Infinity is not a finite number"),
        ({"amqp_headers": '{"a": 1e400}'}, "1e400 is not a finite number"),
        ({"amqp_headers": '{"a": 1e300}'}, "cannot represent it"),
        ({"amqp_reply_to": "amq.rabbitmq.reply-to"}, "amqp-reply-to must not be amq.rabbitmq.reply-to"),
        ({"h": "\N{WATERMELON}" * 33_000}, r"headers have 132\d\d\d bytes, RabbitMQ takes 131064"),
    ],
)
def test_a_message_for_which_rabbitmq_would_end_the_shared_connection_is_not_sent(tmp_path, headers, said):
    link = SimpleNamespace(channel=SimpleNamespace(max_content_size=131_064))  # nothing to publish by
    with pytest.raises(GiveUp, match=said):
        asyncio.run(made("rabbitmq", tmp_path, **BROKERS["rabbitmq"][0]).publish(link, a_job(to="q", **headers)))


@pytest.mark.parametrize(
    ("body", "options", "headers", "said"),
    [
        (1_048_576, {}, {}, r"body and headers have 10486\d\d bytes, NATS takes 1048576"),
        (1_000_000, {}, {"h": "\N{WATERMELON}" * 15_000}, "body and headers have 10600"),
        (1_048_520, {"stream": "s" * 20}, {}, "body and headers have 1048592"),
        (1, {}, {"to": "a." + "\N{WATERMELON}" * 1_000}, "the subject has 4002 bytes, at most 3900"),
    ],
)
def test_a_message_for_which_nats_would_end_the_shared_connection_is_not_sent(tmp_path, body, options, headers, said):
    link = SimpleNamespace(client=SimpleNamespace(max_payload=1_048_576))  # nothing to publish by
    outlet = made("nats", tmp_path, **BROKERS["nats"][0], **options)
    with pytest.raises(GiveUp, match=said):
        asyncio.run(outlet.publish(link, a_job(bytes(body), **{"to": "a", "message_id": "m", **headers})))


def test_zeros_before_a_number_change_no_property_of_rabbitmq(tmp_path):
    outlet = made("rabbitmq", tmp_path, **BROKERS["rabbitmq"][0])
    found = outlet._properties(a_job(amqp_priority="0" * 5_000 + "7", amqp_timestamp="0" * 5_000))
    assert (found.priority, found.timestamp.timestamp()) == (7, 0)


@pytest.mark.parametrize("name", ["nats", "rabbitmq", "redis"])
def test_a_password_stands_in_a_variable(name, tmp_path, monkeypatch):
    url = BROKERS[name][0]["url"].replace("//", "//user:secret@")
    with pytest.raises(ConfigError, match="a password does not belong here") as raised:
        made(name, tmp_path, url=url)
    assert "secret@" not in str(raised.value)
    monkeypatch.setenv("BROKER", url)
    assert "secret" not in made(name, tmp_path, url_env="BROKER").target
    with pytest.raises(ConfigError, match="url is missing"):
        made(name, tmp_path)
    with pytest.raises(ConfigError, match="give one of url, url_env"):
        made(name, tmp_path, url_env="BROKER", **BROKERS[name][0])


@pytest.mark.parametrize("name", ["nats", "rabbitmq", "redis"])
def test_an_address_that_is_none_is_refused_without_being_shown(name):
    scheme = BROKERS[name][0]["url"].removesuffix("localhost")
    ends = (f"{scheme}u:secret@{end}" for end in ("a:x", "[", "a:99999"))
    for url in ("smtp://u:secret@a", *ends, "", 5):
        with pytest.raises(BadOption, match=f"is written like {scheme}user") as refused:
            kind(name)(url)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["nats", "rabbitmq", "redis"])
@on_a_loop
async def test_a_broker_that_stays_away_is_a_failed_attempt_within_the_timeout(name):
    deliver = kind(name)(BROKERS[name][0]["url"].replace("localhost", "127.0.0.1:1"), timeout=0.2)
    with pytest.raises(NotConfirmed, match="the broker cannot be reached"):
        await deliver(a_job())


@pytest.mark.parametrize("name", BROKERS)
def test_a_package_that_is_missing_is_said_when_the_outlet_is_made(name, tmp_path, monkeypatch):
    words, module = BROKERS[name]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"not installed: pip install 'pywheel-timer\[{name}\]'"):
        made(name, tmp_path, **words)


@pytest.mark.parametrize("name", BROKERS)
def test_arguments_that_make_no_sense_are_refused(name):
    for wrong in ({"allow": "orders.*"}, {"allow": [5]}, {"timeout": 0}, {"timeout": "soon"}):
        with pytest.raises(BadOption):
            kind(name)(*BROKERS[name][0].values(), **wrong)
