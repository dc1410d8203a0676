"""Sign-in by a header of a proxy that is trusted, and of nobody else."""

import httpx
import pytest

from pywheel import BadOption
from pywheel.server import ProxySignIn, app
from tests.server.client import Process

from .site import act

HEADER = "X-Forwarded-User"
ADA = {HEADER: "ada@example.net"}


def signed_in(client, header=((b"x-forwarded-user", b"ada"),), trusted=("10.0.0.0/8", "fd00::/8", "192.0.2.7")):
    return ProxySignIn(HEADER, trusted).grant({"client": client, "headers": list(header)})


def test_a_trusted_proxy_says_who_it_is_and_no_other_peer_does():
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "192.0.2.7", "::ffff:192.0.2.7"):
        grant = signed_in((address, 1))
        assert (grant.name, grant.scopes, grant.everywhere) == ("ada", {"read"}, True)
    others = "192.0.2.8 11.0.0.1 127.0.0.1 ::1 ::10.1.2.3 fe80::1 10.1.2.3.4 /run/proxy.sock 10.1.2.3,192.0.2.8".split()
    for client in (None, (), ("", 0), *((address, 1) for address in others)):
        assert signed_in(client) is None


@pytest.mark.parametrize(
    "headers",
    [
        [], [(b"x-forwarded-user", b"")], [(b"x-forwarded-user", b" ")],
        [(b"x-forwarded-user", b"ada"), (b"x-forwarded-user", b"ada")],
        [(b"X-Forwarded-User", b"admin"), (b"x-forwarded-user", b"ada")], [(b"x_forwarded_user", b"ada")],
        [(b"x-forwarded-user", b"a\x1b[2Jda")], [(b"x-forwarded-user", b"a" * 201)],
    ],
)  # fmt: skip
def test_a_header_that_is_missing_twice_there_or_no_name_means_nothing(headers):
    assert signed_in(("10.1.2.3", 1), headers) is None


@pytest.mark.parametrize(
    "words",
    [
        *({"header": header} for header in ("", "X User", "Cookie", "authorization")),
        *({"trusted": trusted} for trusted in ([], ["proxy.example"], ["10.0.0.1/8"], ["0.0.0.0/0"], ["::/0"])),
        {"role": "king"},
    ],
)
def test_what_makes_no_sense_is_refused(queue, words):
    with pytest.raises(BadOption):
        ProxySignIn(**{"header": HEADER, "trusted": ["10.0.0.1"], **words})
    with pytest.raises(ValueError, match="sign_in"):  # which has nobody to sign in
        app(queue, access="open", sign_in=ProxySignIn(HEADER, ["10.0.0.1"]))


@pytest.fixture
def behind(guarded):
    """A site with tokens that trusts the proxy at 127.0.0.1."""
    guarded.context.access.sign_in = ProxySignIn(HEADER, ["127.0.0.1"])
    return guarded


def test_who_comes_by_the_proxy_is_in_with_its_role_and_no_more(queue, behind):
    id = queue.put("mail", b"", delay=60)
    with behind.client(**ADA) as client:
        text = client.get("/").text
        assert "ada@example.net, viewer" in text
        assert "Sign out" not in text
        assert act(client, queue, id, action="cancel").status_code == 403
        behind.context.access.sign_in = ProxySignIn(HEADER, ["127.0.0.1"], "operator")
        for site, status in (("cross-site", 403), ("same-origin", 303)):  # a form of another site changes nothing
            client.headers["sec-fetch-site"] = site
            assert act(client, queue, id, action="cancel").status_code == status
    with behind.client("admin") as client:
        assert "ada@example.net" in client.get("/log").text
        client.headers.update(ADA)
        assert ", viewer" not in client.get("/").text  # the token was a choice


def test_without_the_header_a_token_is_needed_as_before_and_for_the_api_always(behind):
    for token, headers in ((None, {}), ("wrong", {}), (None, {"X-Forwarded-For": "127.0.0.1"}), (None, {HEADER: ""})):
        with behind.client(token, **headers) as client:
            assert client.get("/").headers["location"].startswith("/sign-in")
    with behind.client("viewer") as client:
        assert client.get("/").status_code == 200
    with behind.client(**ADA) as client:
        assert client.get("/v1/topics").status_code == 401


@pytest.mark.stress
def test_the_server_knows_the_proxy_by_its_connection_and_by_nothing_that_is_sent(tmp_path):
    options = ("--sign-in-header", HEADER, "--sign-in-from", "127.0.0.7", "--proxies", "127.0.0.8")
    forged = {**ADA, "X-Forwarded-For": "127.0.0.7", "Forwarded": "for=127.0.0.7", "X-Real-IP": "127.0.0.7"}
    with Process(tmp_path, *options) as server:
        for address, status in (("127.0.0.7", 200), ("127.0.0.8", 303), ("127.0.0.1", 303)):
            transport = httpx.HTTPTransport(local_address=address)
            with httpx.Client(base_url=server.url, transport=transport, headers=forged) as client:
                assert (address, client.get("/").status_code) == (address, status)
