"""Endpoints that are slow, endless, broken or hostile: each costs one attempt, bounded in time and memory."""

import gzip
import socket
import ssl
import traceback
from contextlib import ExitStack

import pytest

from pywheel import GiveUp, RetryLater
from pywheel.outlets import http
from pywheel.outlets.http import MOST_ANSWER
from pywheel.outlets.webhook import DeliveryFailed
from tests.outlets.certificates import authority
from tests.outlets.conftest import a_job, deliver, inside
from tests.outlets.endpoint import OK, Endpoint, answer, bytes_and_then, for_ever, hang

SOON = 0.3

SILENT = {
    "nothing": hang,
    "half a status": bytes_and_then(b"HTTP/1.1 200", "hang"),
    "half its headers": bytes_and_then(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "hang"),
}
BROKEN = {
    "hangs up": bytes_and_then(b""),
    "resets": bytes_and_then(b"", "reset"),
    "resets in the status": bytes_and_then(b"HTTP/1.1 20", "reset"),
    "resets in the headers": bytes_and_then(b"HTTP/1.1 500 X\r\nContent-Le", "reset"),
    "another protocol": bytes_and_then(b"SSH-2.0-OpenSSH_9.2\r\n", "hang"),
    "status 9999": bytes_and_then(b"HTTP/1.1 9999 X\r\n\r\n", "hang"),
    "a negative length": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Length: -5\r\n\r\n", "hang"),
    "two lengths": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "hang"),
    "a long header": bytes_and_then(b"HTTP/1.1 200 X\r\na: " + b"x" * 100_000, "hang"),
    "endless headers": for_ever(b"HTTP/1.1 200 X\r\n", b"a: b\r\n"),
    "an endless status": for_ever(b"", b"x"),
    "continue for ever": for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "no chunks": bytes_and_then(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "hang"),
    "more than was asked for": OK + b"and more",
}
ANSWERED = {
    "reset in the body": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\nsome", "reset"),
    "end in the body": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\nsome"),
    "silence in the body": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Length: 500\r\n\r\nsome", "hang"),
    "no gzip": bytes_and_then(b"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"),
    "early hints": bytes_and_then(b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + OK),
    "continue": bytes_and_then(b"HTTP/1.1 100 Continue\r\n\r\n" + OK),
    "http 1.0": bytes_and_then(answer(200, b"ok", version=b"1.0")),
    "http 1.0 without a length": bytes_and_then(b"HTTP/1.0 200 OK\r\n\r\nuntil the end"),
}
ENDLESS = {
    "chunks": (b"Transfer-Encoding: chunked", b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    "a long one": (b"Content-Length: 99999999999", b"x" * 4096),
    "until the end": (b"Connection: close", b"x" * 4096),
}


def failure(endpoint, said, **changes):
    """Return what becomes of a job delivered to an endpoint that says this, and has nothing against the next one."""
    endpoint.answers["/"] = said
    outlet = inside(endpoint.url(), allow_to=[endpoint.url("/next")])
    first, second = deliver(outlet, a_job(**changes), a_job(headers={"to": endpoint.url("/next")}, id=8))
    assert second is None
    return first


@pytest.mark.parametrize("said", SILENT)
def test_an_endpoint_that_does_not_answer_in_time_is_a_failed_attempt(endpoint, said):
    error = failure(endpoint, SILENT[said], ttr=300)  # it bounds this delivery, and not the next one
    assert isinstance(error, DeliveryFailed)
    assert "no answer within the time, 0.3 s" in str(error)


def test_a_host_that_takes_no_connection_is_a_failed_attempt(endpoint):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        url = "http://{}:{}/".format(*full.getsockname())
        with socket.create_connection(full.getsockname()), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(full.getsockname())
            assert "no connection within the time" in str(deliver(inside(url, connect_timeout=SOON, per_host=1)))
    error = deliver(inside(url))  # nobody listens there any more
    assert isinstance(error, DeliveryFailed)
    assert "ClientConnectorError" in str(error)


@pytest.mark.parametrize("said", BROKEN)
def test_what_is_no_answer_is_a_failed_attempt_and_not_tried_again_at_once(endpoint, said):
    assert isinstance(failure(endpoint, BROKEN[said]), DeliveryFailed)
    assert endpoint.paths() == ["/", "/next"]


@pytest.mark.parametrize("said", ANSWERED)
def test_a_status_that_came_counts_whatever_follows(endpoint, said):
    assert failure(endpoint, ANSWERED[said]) is None


@pytest.mark.parametrize("status", [b"200", b"500"])
@pytest.mark.parametrize("kind", ENDLESS)
def test_of_an_endless_answer_little_is_read(endpoint, monkeypatch, status, kind):
    monkeypatch.setattr(http, "_BODY", 600)  # it ends by what was read, not by its time
    head, part = ENDLESS[kind]
    said = for_ever(b"HTTP/1.1 " + status + b" X\r\n" + head + b"\r\n\r\n", part)
    error = failure(endpoint, said)
    assert str(error).endswith("None" if status == b"200" else "answered 500: " + "x" * 1_000)
    assert said.sent < 64 << 20  # what the sockets of both sides hold; it would go on for ever


def test_a_connection_that_the_endpoint_has_closed_meanwhile_costs_no_attempt(endpoint):
    """As many do with one that was idle for seconds: it is seen only when the next request is sent."""
    endpoint.answers["/"] = bytes_and_then(OK)
    for _ in range(10):
        assert deliver(inside(endpoint.url()), a_job(), a_job()) == [None, None]


def test_a_bomb_is_not_unpacked(endpoint):
    bomb = gzip.compress(b"x" * (50 << 20))
    error = failure(endpoint, answer(500, bomb, b"Content-Encoding: gzip"))
    assert "answered 500" in str(error)
    assert "xxxx" not in str(error)
    assert len(bomb) > MOST_ANSWER


def test_an_error_is_bounded_and_text_whatever_was_answered(endpoint):
    assert "\ufffd" in str(failure(endpoint, answer(400, b"\xff\xfe\x00n\x00o")))
    head = b"HTTP/1.1 503 X\r\nRetry-After: 1\r\nLocation: " + b"y" * 7_000 + b"\r\nContent-Length: 90000\r\n\r\n"
    error = failure(endpoint, bytes_and_then(head + "\u00e4".encode() * 45_000))
    assert isinstance(error, RetryLater)
    assert len(str(error)) < 1_300


# ---- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return authority(folder, "ours"), authority(folder, "strangers")


def trusting(path):
    return ssl.create_default_context(cafile=str(path))


def test_an_endpoint_with_the_right_certificate_is_delivered_to_and_one_of_another_host_is_not(authorities):
    (ca, server), _ = authorities
    for host, error in (("127.0.0.1", "none"), ("127.0.0.9", "certificate")):
        with Endpoint(server(host)) as endpoint:
            assert error in str(deliver(inside(endpoint.url(), tls=trusting(ca)))).lower()
            assert len(endpoint.requests) == (error == "none")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_of_answers_that_are_none_yet_so_many_bytes_are_read_and_no_more(authorities, scheme):
    """Whoever reads them all is kept from all else."""
    (ca, server), _ = authorities
    with Endpoint(server("127.0.0.1") if scheme == "https" else None) as endpoint:
        endpoint.answers["/"] = for_ever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)
        assert "no answer was among them" in str(deliver(inside(endpoint.url(), tls=trusting(ca))))


@pytest.mark.parametrize("trusted", ["system", "ours"])
def test_a_certificate_that_a_stranger_vouches_for_is_refused_before_anything_is_sent(authorities, trusted):
    (ca, _), (_, stranger) = authorities
    with Endpoint(stranger("127.0.0.1")) as endpoint:
        error = deliver(inside(endpoint.url(), tls=trusting(ca) if trusted == "ours" else None))
        assert isinstance(error, DeliveryFailed)
        assert "certificate" in str(error).lower()
        assert endpoint.requests == []
    with Endpoint() as plain:  # as is one that speaks no TLS
        url = plain.url().replace("http://", "https://")
        assert isinstance(deliver(inside(url, timeout=1)), DeliveryFailed)
        assert plain.requests == []


def test_a_proxy_that_is_named_is_used_and_none_of_the_environment(endpoint, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert deliver(inside(endpoint.url())) is None
    to = "http://shop.example/hook"
    assert deliver(inside(to, proxy=endpoint.url())) is None
    assert endpoint.paths() == ["/", to]


def test_an_error_has_neither_the_query_of_the_url_nor_the_password_of_the_proxy(endpoint):
    endpoint.answers["/hook"] = bytes_and_then(b"HTTP/1.1 abc\r\n\r\n")
    endpoint.answers["shop.example:443"] = bytes_and_then(b"HTTP/1.1 407 No\r\n\r\n")
    direct = inside(endpoint.url("/hook?token=SECRET"))
    proxied = inside("https://shop.example/hook?token=SECRET", proxy=endpoint.url().replace("//", "//user:SECRET@"))
    for outlet, said in ((direct, "Invalid status code"), (proxied, "407 'No'")):
        error = deliver(outlet)
        assert said in str(error)
        assert "SECRET" not in "".join(traceback.format_exception(error))


def test_an_outlets_timeout_bounds_each_delivery(endpoint):
    endpoint.answers["/"] = hang
    error = deliver(inside(endpoint.url(), timeout=SOON))
    assert isinstance(error, DeliveryFailed)
    assert "no answer within the time, 0.3 s" in str(error)


def test_with_many_connections_open_none_is_kept_idle(endpoint, monkeypatch):
    """Each host would keep one for a while, and there may be more hosts than a process may open files."""
    monkeypatch.setattr(http, "_KEPT", 2)
    with ExitStack() as stack:
        hosts = [stack.enter_context(Endpoint()) for _ in range(6)]
        jobs = [a_job(headers={"to": host.url()}) for host in hosts for _ in range(3)]
        assert deliver(inside(), *jobs) == [None] * 18
        assert [host.connections for host in hosts] == [1, 2, 3, 3, 3, 3]


UNCHECKED = ["https://a.example/\r\nx: y", "http://a b/", "ftp://a.example/", "x", "", "https://u:p@a.example/"]


@pytest.mark.parametrize("to", UNCHECKED)
def test_a_header_to_that_put_did_not_check_makes_its_job_dead(endpoint, to):
    [error] = deliver(inside(), a_job(headers={"to": to}))
    assert isinstance(error, GiveUp)
    assert "u:p" not in str(error)
