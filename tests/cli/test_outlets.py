"""`pywheel deliver --check`, and `pywheel outlets`."""

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.jobs.waiting import finished, until, working
from tests.outlets.conftest import SECRET, inside
from tests.outlets.endpoint import Endpoint, answer

pytest.importorskip("aiohttp")
CONFIG = """
[outlets.shop]
kind = "webhook"
topics = ["t"]
secrets_env = "SHOP_SECRET"
ttr = "3s"
timeout = "2500ms"
retry = ["100ms", "100ms", "100ms", "100ms"]
"""


@pytest.fixture
def endpoint():
    with Endpoint() as endpoint:
        yield endpoint


def test_the_help_of_the_list_has_an_example(call):
    assert "  pywheel outlets\n" in call("outlets", "--help")[1]


def test_check_says_what_would_run_and_no_secret(says, call, url, tmp_path, monkeypatch):
    (config := tmp_path / "outlets.toml").write_text(CONFIG)
    monkeypatch.setenv("SHOP_SECRET", SECRET)
    check = ("deliver", "--store", url, "--config", config, "--check")
    [said] = says(*check)
    assert (said["outlet"], said["topics"], said["target"]) == ("shop", ["t"], "as each job says")
    assert (said["ttr"], said["attempts"]) == (3, 5)
    text = call(*check)[1]
    assert text.splitlines()[1].split("\t")[3] == "as each job says"
    assert SECRET not in f"{said} {text}"


def test_outlets_are_listed_with_their_last_answers_and_enabled_again(says, call, endpoint, queue, url):
    endpoint.answers["/gone"] = answer(410)
    queue.handler("t")(inside(name="shop"))
    assert call("outlets", "--store", url)[:2] == (0, "outlet\tkind\ttarget\tlast\tstatus\tdisabled\terror\n")
    with working(queue):
        assert finished(queue, queue.put("t", to=endpoint.url("/gone?key=x"))).state is State.DEAD
        late = queue.put("t", to=endpoint.url("/gone?key=x"))
        assert "is disabled" in finished(queue, late).last_error
        finished(queue, queue.put("t", to=endpoint.url("/fine")))
    whole, disabled = says("outlets", "--store", url)
    assert (whole["name"], whole["kind"], whole["status"], whole["error"]) == ("shop", "webhook", "200", None)
    assert (disabled["target"], disabled["error"]) == (endpoint.url("/gone"), "it answered 410")
    assert disabled["disabled"] >= disabled["at"] > 0
    assert call("outlets", "enable", "other", "--store", url) == (1, "nothing was disabled\n", "")
    assert call("outlets", "enable", "shop", "--target", endpoint.url("/x"), "--store", url)[0] == 1
    assert call("outlets", "enable", "shop", "--store", url)[:2] == (0, f"enabled {endpoint.url('/gone')}\n")
    endpoint.answers.clear()
    queue.jobs.retry(late)
    with working(queue):
        assert finished(queue, late).state is State.DONE


def test_a_disabled_endpoint_is_known_to_every_worker_and_enabled_on_all(endpoint, queue, url, call):
    endpoint.answers["/"] = answer(410)
    with JobQueue(url) as other:
        for each, topic in ((queue, "a"), (other, "b")):
            each.handler(topic)(inside(endpoint.url(), name="shop"))
        with working(queue), working(other):
            finished(queue, queue.put("a"))
            until(lambda: "is disabled" in finished(queue, queue.put("b")).last_error)
            asked = len(endpoint.requests)
            del endpoint.answers["/"]
            call("outlets", "enable", "shop", "--store", url)
            until(lambda: {finished(queue, queue.put(topic)).state for topic in "ab"} == {State.DONE})
    assert asked <= 4
