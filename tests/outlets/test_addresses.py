"""No way leads to an internal address: no spelling, no name, no answer of a name server."""

import asyncio
import ipaddress
import re
import socket
import threading
import tomllib
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import GiveUp
from pywheel.outlets import Webhook, http
from pywheel.outlets.addresses import AddressPolicy, AddressRefused, is_inner
from pywheel.outlets.webhook import DeliveryFailed
from tests.outlets.conftest import a_job, deliver
from tests.outlets.endpoint import Endpoint

INNER = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254 169.254.0.1
169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1
198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1
100::1 2001::1 2001:db8::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1
fec0::1 ff02::1 ff0e::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
""".split()
OUTER = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255
172.15.255.255 172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
2606:4700:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 2003::1
""".split()


NAMES = """
localhost LOCALHOST localhost. a.localhost printer.local printer.local. metadata.google.internal db router.lan
x.home.arpa localhost.localdomain
""".split()


def test_inner_addresses_and_names_of_inner_things_are_refused_and_public_ones_are_not():
    for address in INNER:
        with pytest.raises(AddressRefused):
            AddressPolicy().check(address)
    for address in OUTER:
        AddressPolicy().check(address)
    for name in NAMES:
        with pytest.raises(AddressRefused):
            AddressPolicy().check_url(name, 80)


WAYS = [
    "::{}", "::ffff:{}", "::ffff:0:{}", "64:ff9b::{}", "64:ff9b:1::{}", "2002:{hex}::", "2002:{hex}::1",
    "fe80::5efe:{}", "2001:0:{hex}::",
]  # fmt: skip


@given(st.ip_addresses(v=4), st.sampled_from(WAYS))
def test_an_ipv4_address_within_an_ipv6_one_is_never_reached(address, way):
    digits = f"{int(address):08x}"
    assert is_inner(ipaddress.IPv6Address(way.format(address, hex=f"{digits[:4]}:{digits[4:]}")))


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_everything_is_either_refused_or_public_and_what_python_calls_private_or_special_is_refused(address):
    special = address.is_multicast or address.is_reserved or (address.version == 6 and address.is_link_local)
    refused = is_inner(address)
    assert refused or (address.is_global and not special)
    with pytest.raises(AddressRefused) if refused else nullcontext():
        AddressPolicy().check(str(address))


def ways_to_write(number):
    """Yield how an IPv4 address may be written so that a system understands it."""
    a, b, c, d = number.to_bytes(4, "big")
    yield str(number)
    yield hex(number)
    yield oct(number).replace("o", "")
    for form in ("{}", "0x{:x}", "0{:o}", "{:03}"):
        yield ".".join(form.format(part) for part in (a, b, c, d))
        yield ".".join(form.format(part) for part in (a, b, (c << 8) + d))
        yield ".".join(form.format(part) for part in (a, (b << 16) + (c << 8) + d))


@given(st.ip_addresses(v=4, network="127.0.0.0/8") | st.ip_addresses(v=4, network="169.254.0.0/16"))
def test_an_inner_address_is_refused_however_it_is_written(address):
    for text in ways_to_write(int(address)):
        for dot in ("", "."):
            with pytest.raises(AddressRefused):
                AddressPolicy().check_url(text + dot, 80)


@given(st.text("0123456789abcdefx.:%[]", min_size=1, max_size=40))
def test_nothing_that_a_system_takes_for_an_inner_address_passes(text):
    """What passes is either a name, which is judged when it is looked up, or a public address."""
    try:
        AddressPolicy().check_url(text, 80)
    except AddressRefused:
        return
    with suppress(OSError, ValueError):
        assert not is_inner(ipaddress.IPv4Address(socket.inet_aton(text)))


@pytest.mark.parametrize("port", [22, 25, 6379, 8080])
def test_other_ports_are_refused_unless_told(port):
    with pytest.raises(AddressRefused, match=f"port {port}"):
        AddressPolicy().check_url("shop.example", port)
    AddressPolicy(ports=[port]).check_url("shop.example", port)
    AddressPolicy(ports=None).check_url("shop.example", port)


def test_what_is_allowed_is_allowed_and_nothing_beside_it():
    policy = AddressPolicy(["10.1.0.0/16", "fd00:7::/32", "192.168.7.7", "Hooks.internal"])
    for address in ("10.1.2.3", "fd00:7::1", "192.168.7.7"):
        policy.check(address)
    policy.check_url("hooks.internal.", 80)
    assert policy.allows_name("HOOKS.internal")
    for address in ("10.2.0.1", "fd00:8::1", "192.168.7.8", "169.254.169.254", "::ffff:10.1.2.3"):
        with pytest.raises(AddressRefused):
            policy.check(address)
    for name in ("other.internal", "x.hooks.internal"):
        with pytest.raises(AddressRefused):
            policy.check_url(name, 80)


# ---- by whole deliveries --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inner():
    """An endpoint on all addresses of this host: it must hear nothing."""
    with Endpoint(host="0.0.0.0") as endpoint:
        yield endpoint
        assert endpoint.connections == 0


HOSTS = """
127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 0x7f.1 127.0.0.1. 0.0.0.0 0 localhost [::1] [::] [::ffff:127.0.0.1]
[::ffff:7f00:1] [64:ff9b::7f00:1] [2002:7f00:1::] [fe80::1%25lo] [::1%25lo] LOCALHOST localhost. 127.0.1
""".split()


def test_an_inner_host_is_not_reached_and_its_job_is_dead(inner):
    urls = [f"{scheme}://{host}:{inner.port}/" for scheme in ("http", "https") for host in HOSTS]
    errors = deliver(Webhook(ports=None, timeout=5), *(a_job(headers={"to": url}) for url in urls))
    assert [url for url, error in zip(urls, errors, strict=True) if not isinstance(error, GiveUp)] == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_error_of_a_dead_job_names_what_would_deliver_it(endpoint, host):
    job, options = a_job(headers={"to": endpoint.url(host=host)}), {}
    for word in ("ports", "allow"):
        error = deliver(Webhook(**options), job)[0]
        option, value = re.search(r"add (\w+) = (\[.*\]) to the outlet, then pywheel retry 7$", str(error)).groups()
        assert option == word
        options[option] = tomllib.loads(f"it = {value}")["it"]
    assert deliver(Webhook(**options), job) == [None]


def looked_up(monkeypatch, *answers):
    """Have names lead to these addresses, one after the other, the last for ever; return what was asked."""
    left, asked = list(answers), []

    def found(host, port, family):
        asked.append(host)
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.IPPROTO_TCP, address)
            for address in addresses
        ]

    monkeypatch.setattr(http, "_looked_up", found)
    return asked


@pytest.mark.parametrize(
    "addresses",
    ["127.0.0.1", "0.0.0.0", "::1", "::ffff:127.0.0.1", "10.0.0.1 127.0.0.1 fe80::1%lo", "64:ff9b::7f00:1"],
)
def test_a_name_that_leads_to_inner_addresses_is_not_reached(inner, monkeypatch, addresses):
    looked_up(monkeypatch, addresses.split())
    error = deliver(Webhook(f"http://evil.example:{inner.port}/", ports=None, timeout=5))
    assert isinstance(error, DeliveryFailed)
    assert "internal address" in str(error) or "one link" in str(error)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1"])
def test_a_socket_is_judged_by_itself_whoever_found_its_address_or_let_the_url_pass(inner, monkeypatch, host):
    async def careless(self, host, port=0, family=socket.AF_INET):
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": family, "proto": 0, "flags": 0}]

    monkeypatch.setattr(http._Resolver, "resolve", careless)
    monkeypatch.setattr(AddressPolicy, "check_url", lambda self, host, port: None)
    error = deliver(Webhook(f"http://{host}:{inner.port}/", ports=None))
    assert isinstance(error, DeliveryFailed)
    assert "internal address" in str(error)


def test_a_name_without_an_address_is_a_failed_attempt(monkeypatch):
    def unknown(host, port, family):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(http, "_looked_up", unknown)
    error = deliver(Webhook("https://nowhere.example/"))
    assert (type(error), "nowhere.example" in str(error)) == (DeliveryFailed, True)


@pytest.fixture
def two(monkeypatch):
    """Two endpoints on one port, of which an outlet for a name may reach the first alone; none keeps a connection."""
    monkeypatch.setattr(http, "_KNOWN", 0)
    with Endpoint() as allowed, Endpoint(host="127.0.0.2", port=allowed.port) as other:
        allowed.answers["/"] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        yield Webhook(f"http://shop.example:{allowed.port}/", allow=["127.0.0.1"], ports=None)
        assert (allowed.connections, other.connections) == (1, 0)


def test_of_several_addresses_the_inner_ones_are_left_out(two, monkeypatch):
    looked_up(monkeypatch, ["127.0.0.2", "127.0.0.1", "169.254.169.254"])
    assert deliver(two) is None


def test_a_name_that_leads_elsewhere_a_moment_later_is_not_followed_there(two, monkeypatch):
    """DNS rebinding: what was judged is what is connected to, and each new look is judged anew."""
    asked = looked_up(monkeypatch, ["127.0.0.1"], ["127.0.0.2"])
    first, second = deliver(two, a_job(), a_job())
    assert first is None
    assert isinstance(second, DeliveryFailed)
    assert asked == ["shop.example"] * 2


def test_a_name_that_is_allowed_may_lead_to_any_address_and_no_other_name_may(endpoint, monkeypatch):
    looked_up(monkeypatch, ["127.0.0.1"])
    urls = [endpoint.url(host=host) for host in ("hooks.internal", "evil.example", "hooks.internal")]
    outlet = Webhook(allow=["hooks.internal"], ports=None)
    ends = deliver(outlet, *(a_job(headers={"to": url}) for url in urls))
    assert [type(end) for end in ends] == [type(None), DeliveryFailed, type(None)]
    assert len(endpoint.requests) == 2


def test_names_whose_server_hangs_hold_up_no_names_that_were_found_and_no_new_ones_for_long(endpoint, monkeypatch):
    answered = threading.Event()

    def hangs(host, port, family):
        if host.endswith("hangs.example"):
            answered.wait(60)
        return [(socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.1")]

    monkeypatch.setattr(http, "_looked_up", hangs)
    monkeypatch.setattr(http, "_KNOWN", 0)
    monkeypatch.setattr(http, "_LOOKUPS", {True: 1, None: 3, False: 1})
    endpoint.answers["/"] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    outlet = Webhook(allow=["127.0.0.1"], ports=None)

    def delivery(host):
        return asyncio.create_task(outlet(a_job(headers={"to": endpoint.url(host=host)})))

    async def program():
        await delivery("known.example")
        others = []
        for _ in range(3):  # the first time they are new
            hanging = [delivery(f"h{number}.hangs.example") for number in range(2)]
            await asyncio.sleep(0.05)
            for task in hanging:
                task.cancel()  # as by its timeout
            others += hanging
        for name in ("known", "new"):
            await delivery(f"{name}.example")
        answered.set()
        await asyncio.gather(*others, return_exceptions=True)
        await outlet.aclose()

    asyncio.run(program())
    assert len(endpoint.requests) == 3
