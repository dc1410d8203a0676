"""Addresses of servers: their parts, hidden parts, and refused addresses."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from pywheel import ExtraMissing, NotAStore
from pywheel.stores import open
from pywheel.stores.address import Address, file, flag, hidden, identifier, seconds
from pywheel.stores.memory import MemoryStore

SECRET = "s3cr%40t"  # of s3cr@t
SEVERAL = "a:1,b,%2Frun%2Fpg"


@pytest.mark.parametrize(
    ("url", "user", "password", "hosts", "path", "shown"),
    [
        ("postgresql://db/shop", None, None, [("db", None)], "/shop", "postgresql://db/shop"),
        (f"postgresql://a:{SECRET}@db:5433/b", "a", "s3cr@t", [("db", 5433)], "/b", "postgresql://a@db:5433/b"),
        ("postgresql:///shop", None, None, [], "/shop", "postgresql:///shop"),
        ("redis://:s3cr@t@db", None, "s3cr@t", [("db", None)], "", "redis://db"),
        ("redis+unix:///run/r%20.sock", None, None, [], "/run/r .sock", "redis+unix:///run/r%20.sock"),
        ("MySQL://a%2Fb@[::1]:3307/x", "a/b", None, [("::1", 3307)], "/x", "mysql://a%2Fb@[::1]:3307/x"),
        (
            "pg://u:@a:1,b,%2Frun%2Fpg/x",
            "u",
            "",
            [("a", 1), ("b", None), ("/run/pg", None)],
            "/x",
            f"pg://u@{SEVERAL}/x",
        ),
    ],
)
def test_an_address_is_taken_apart(url, user, password, hosts, path, shown):
    address = Address(url)
    assert (address.user, address.password, list(address.hosts)) == (user, password, hosts)
    assert (address.path, address.database, address.shown) == (path, path[1:], shown)
    assert address.url == url
    assert Address(address.shown).shown == shown


def test_options_are_shown_but_for_secrets():
    secrets = "sslpassword=s3cret&api_token=s3cret&password=s3cret"
    address = Address(f"x://h/d?schema=a%20b&sslrootcert=/etc/ca.pem&{secrets}")
    assert address.options["schema"] == "a b"
    assert address.options["password"] == "s3cret"
    assert address.shown == "x://h/d?schema=a%20b&sslrootcert=/etc/ca.pem"
    assert repr(address) == f"<Address {address.shown}>"


@pytest.mark.parametrize(
    "url",
    [
        "x://u:s3cret@h:port/d", "x://u:s3cret@h:70000/d", "x://u:s3/cret@h/d", "x://u:s3?cret@h/d", "x://u:s3#cret@h/d",
        "x://u:s3 cret@h/d#f", "x://u:s3cret%ff@h/d", "x:u:s3cret@h/d", "u:s3cret@h/d", "x//u:s3cret@h/d",
        "postgres-ql://u:s3cret@h/d", "postgresql+psycopg://u:s3cret@h/d", "sqlite:///u:s3cret@h?mode=ro",
        "x://h/d?password=s3cret&a=1&a=2", "nobody-knows://h/d?password=s3cret",
    ],
)  # fmt: skip
def test_a_wrong_address_is_refused_in_one_line_and_its_password_is_not_shown(url):
    for take in (open, Address):
        if take is Address and url.startswith(("post", "sqlite", "nobody")):
            continue
        with pytest.raises(NotAStore) as refused:
            take(url)
        assert "cret" not in str(refused.value)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 400


def test_a_password_may_stand_in_a_file_which_is_read_each_time(tmp_path):
    file = tmp_path / "password"
    address = Address(f"x://u@h/d?password_file={file}")
    with pytest.raises(NotAStore, match=rf"the password cannot be read from {file}: No such file"):
        address.password  # noqa: B018
    for word in ("one", "two "):
        file.write_text(f"{word}\n")
        assert address.password == word
    assert address.split({}) == ({}, {})
    assert str(file) in address.shown


def test_what_a_driver_says_is_shown_in_one_line_without_the_password():
    address = Address(f"x://shop:{SECRET}@h/d?sslpassword=k3y")
    said = f"no\n  connection to x://shop:{SECRET}@h, password s3cr@t, key k3y"
    assert address.hide(said) == "no connection to x://shop:***@h, password ***, key ***"
    same = Address("x://shop:shop@h/d")
    assert same.hide('authentication failed for user "shop"') == 'authentication failed for user "shop"'


READERS = {"pool": int, "notify": flag, "schema": identifier, "timeout": seconds}


def test_options_are_read_and_those_of_the_driver_passed_on():
    address = Address("x://h/d?pool=4&notify=off&schema=shop&timeout=500ms&sslmode=require")
    known, passed = address.split(READERS, ["sslmode", "sslrootcert"])
    assert known == {"pool": 4, "notify": False, "schema": "shop", "timeout": 0.5}
    assert passed == {"sslmode": "require"}


def test_a_file_for_the_driver_must_be_there(tmp_path):
    for value in (__file__, "system"):
        assert Address(f"x://h/d?sslrootcert={value}").split({"sslrootcert": file}) == ({"sslrootcert": value}, {})
    with pytest.raises(NotAStore, match=f"sslrootcert is the path of a file that is there, not '{tmp_path}/ca.pem'"):
        Address(f"x://h/d?sslrootcert={tmp_path}/ca.pem").split({"sslrootcert": file})


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("pol=4", r"there is no option 'pol': did you mean 'pool'\?"),
        ("ssl_mode=on", r"did you mean 'sslmode'\?"),
        ("x=1", "there is no option 'x'; there are notify, password_file, pool, schema, sslmode, timeout"),
        ("notify=maybe", "notify is on or off, not 'maybe'"),
        ("schema=Shop", "schema is up to 40 small letters"),
        ("schema=a'b", "schema is up to 40 small letters"),
        ("timeout=-1", "timeout is a time over 0, such as 5 or 500ms, not '-1'"),
        ("timeout=soon", "timeout is a time over 0"),
        ("timeout=nan", "timeout is a time over 0"),
    ],
)
def test_an_option_that_is_none_is_refused_with_what_is_right(option, message):
    with pytest.raises(NotAStore, match=message) as refused:
        Address(f"x://u:s3cret@h/d?{option}").split(READERS, ["sslmode"])
    assert str(refused.value).startswith("x://u@h/d?")


def test_an_address_in_a_message_is_shown_without_its_password():
    assert hidden("x://u:a@b@h/d?q=1&token=abc&sslpassword=y") == "x://u:***@h/d?q=1&token=***&sslpassword=***"


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [
        ("postgresql://shop:s3cret@db/shop", "psycopg", "postgres"),
        ("mariadb://shop:s3cret@db/shop", "pymysql", "mysql"),
        ("rediss://:s3cret@db/0", "redis", "redis"),
    ],
)
def test_a_driver_that_is_not_installed_is_named_with_how_to_install_it(monkeypatch, url, driver, extra):
    monkeypatch.setitem(sys.modules, driver, None)
    said = rf"^{driver} is not installed: pip install 'pywheel-timer\[{extra}\]'$"
    with pytest.raises(ExtraMissing, match=said) as refused:
        open(url)
    assert "s3cret" not in str(refused.value)


# ---- stores of others -----------------------------------------------------------------------------------------------


class OthersStore(MemoryStore):
    def __init__(self, address, *, clock, create):
        super().__init__(address.shown, clock=clock)
        self.address, self.create = address, create


@pytest.fixture
def registered(monkeypatch):
    """Register a store for shelf:, as an installed distribution would."""

    def register(value=f"{__name__}:OthersStore"):
        entries = EntryPoints([EntryPoint("shelf", value, "pywheel.stores")])
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)

    return register


def test_a_store_of_others_is_found_by_its_scheme(registered):
    registered()
    with open("shelf://u:s3cret@h/books?a=1", create=False) as store:
        assert type(store).__name__ == "OthersStore"
        assert store.url == "shelf://u@h/books?a=1"
        assert store.secret_url == "shelf://u:s3cret@h/books?a=1"
        assert not store.create


def test_a_scheme_of_others_is_offered_for_one_that_is_nearly_so(registered):
    registered()
    with pytest.raises(NotAStore, match=r"did you mean shelf:\?"):
        open("shelv://h/books")


def test_a_store_of_others_that_cannot_be_imported_is_named(registered):
    registered("no_such_module:Store")
    said = r"the store for shelf: of .*\(no_such_module:Store\) cannot be imported: No module"
    with pytest.raises(NotAStore, match=said):
        open("shelf://h/books")
