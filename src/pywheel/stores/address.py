"""Addresses of servers: ``scheme://user:password@host:port,host:port/path?option=value``.

All parts except the scheme are optional. Characters other than letters, digits and ``-._~`` are percent-encoded.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from .._errors import BadAddress, BadJob, NotAStore
from ..jobs.durations import signed_ms

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE | re.ASCII)
_HOST: Final = re.compile(r"(?P<name>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
_SECRET: Final = re.compile(r"pass(word|wd|phrase)?$|secret|token", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(r":(?!//).*@", re.DOTALL)
_SECRET_OPTION: Final = re.compile(
    r"(?<=[?&])([^=&?]*(?:pass(?:word|wd|phrase)?|(?:secret|token)[^=&]*))=[^&#\s]*", re.IGNORECASE
)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FILE: Final = "password_file"
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}", re.ASCII)


class Host(NamedTuple):
    """One of an address's servers."""

    name: str  # or the folder or path of a Unix socket
    port: int | None  # None: the scheme's own


class Address:
    """The parts of an address. Its `repr` and `shown` have no password."""

    __slots__ = ("_password", "hosts", "options", "path", "scheme", "shown", "url", "user")

    scheme: str
    """In lower case."""
    user: str | None
    hosts: tuple[Host, ...]
    """In the order given; () is the driver's default."""
    path: str
    """With the slash before it; "" if there is none."""
    options: dict[str, str]
    """The options after the ?, by name."""
    url: str
    """The address as it was given, with the password. Never show it."""
    shown: str
    """The same address without its password, for people, logs and errors."""

    def __init__(self, url: str) -> None:
        """Parse an address. BadAddress, with the part that is wrong, if it is none."""
        self.url = url
        refuse_control_characters(url)
        scheme, mark, rest = url.partition("://")
        if not mark or not _SCHEME.fullmatch(scheme):
            raise BadAddress(f"{hidden(url)!r} is not an address of a server: write scheme://user@host:port/name")
        if "#" in rest:
            raise BadAddress(f"{hidden(url)!r}: in an address write # as %23")
        self.scheme = scheme.lower()
        rest, _, query = rest.partition("?")
        authority, slash, path = rest.partition("/")
        credentials, at, hosts = authority.rpartition("@")
        user, colon, password = credentials.partition(":")
        try:
            self.user = unquote(user, errors="strict") if at and user else None
            self._password = unquote(password, errors="strict") if colon else None
            self.path = unquote(slash + path, errors="strict")
        except UnicodeDecodeError:
            raise BadAddress(f"{hidden(url)!r}: its percent-encoded characters are not UTF-8") from None
        self.hosts = tuple(_host(host, url) for host in hosts.split(",")) if hosts else ()
        self.options = _options(query, url)
        self.shown = self._shown(slash + path, hosts)

    @property
    def database(self) -> str:
        """The path without its slash: the name of a database."""
        return self.path[1:]

    @property
    def password(self) -> str | None:
        """The password: the address's own, or the present content of `password_file`. None: the driver finds it.

        NotAStore if that file cannot be read.
        """
        if self._password is not None or _FILE not in self.options:
            return self._password
        path = self.options[_FILE]
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123  (text)
                return file.read().rstrip("\r\n")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise NotAStore(f"{self.shown}: the password cannot be read from {path}: {reason}") from None

    def split(
        self, ours: Mapping[str, Callable[[str], Any]], drivers: Collection[str] = ()
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the options that a store knows, each read by its reader, and those that it hands to its driver.

        A reader takes the text. It raises ValueError with a description of valid values. BadAddress for an unknown
        option; it names the one that may have been meant.
        """
        known: dict[str, Any] = {}
        passed: dict[str, str] = {}
        for name, text in self.options.items():
            if name in ours:
                try:
                    known[name] = ours[name](text)
                except ValueError as error:
                    raise BadAddress(f"{self.shown}: {name} is {error}, not {text!r:.200}") from None
            elif name in drivers:
                passed[name] = text
            elif name != _FILE:
                raise BadAddress(
                    f"{self.shown}: there is no option {name!r:.60}{_meant(name, {*ours, *drivers, _FILE})}"
                )
        return known, passed

    def hide(self, text: object) -> str:
        """Return a driver's message, in one line, without the password: but if `shown` has that word, it may stay."""
        line = " ".join(str(text).split())
        for secret in (self._password, *(self.options[name] for name in self.options if _SECRET.search(name))):
            for form in (secret, quote(secret or "", safe="")):
                if form and form not in self.shown:
                    line = line.replace(form, "***")
        return line

    def _shown(self, path: str, hosts: str) -> str:
        user = quote(self.user, safe="") + "@" if self.user is not None else ""
        shown = [
            f"{name}={quote(value, safe='/:,')}" for name, value in self.options.items() if not _SECRET.search(name)
        ]
        return f"{self.scheme}://{user}{hosts}{path}" + ("?" + "&".join(shown) if shown else "")

    def __repr__(self) -> str:
        return f"<Address {self.shown}>"


def hidden(text: str) -> str:
    """Return an address, valid or not, with possible passwords replaced."""
    return _SECRET_OPTION.sub(r"\1=***", _CREDENTIALS.sub(":***@", text))


def refuse_control_characters(url: str) -> None:
    """Refuse an address that may lead to another place than the one that was meant. BadAddress."""
    if _CONTROL.search(url):
        raise BadAddress(f"{hidden(url)!r} has a control character, such as a newline at its end; a path has it as %0A")


def _host(text: str, url: str) -> Host:
    found = _HOST.fullmatch(text)
    port = found["port"] if found else None
    if not found or (port and not 0 < int(port) < 65_536):
        raise BadAddress(
            f"{hidden(url)!r}: write a host as host:port or [IPv6]:port; in names and passwords write "
            "@ as %40, : as %3A and / as %2F"
        )
    name = found["name"]
    return Host(unquote(name[1:-1] if name.startswith("[") else name), int(port) if port else None)


def _options(query: str, url: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        name = unquote(name)
        if name in options:
            raise BadAddress(f"{hidden(url)!r}: the option {name!r:.60} is given twice")
        options[name] = unquote(value)
    return options


def _meant(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    return f": did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(names))}"


# ---- readers of options ----------------------------------------------------------------------------------------------


def flag(text: str) -> bool:
    """Return whether an option is on."""
    value = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
    if text.lower() not in value:
        raise ValueError("on or off")
    return value[text.lower()]


def seconds(text: str) -> float:
    """Return a time limit: a number of seconds, or text such as 500ms."""
    try:
        milliseconds = signed_ms(float(text) if _NUMBER.fullmatch(text) else text, "it")
    except BadJob:
        milliseconds = 0
    if milliseconds <= 0:
        raise ValueError("a time over 0, such as 5 or 500ms")
    return milliseconds / 1000


def file(text: str) -> str:
    """Return the path of a file that a driver reads, or a word that it knows. Drivers may not name a missing file."""
    if "/" in text and not os.path.exists(text):  # noqa: PTH110  (text)
        raise ValueError("the path of a file that is there")
    return text


def identifier(text: str) -> str:
    """Return a name that is part of statements: small letters, digits and _, 40 at most."""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("up to 40 small letters, digits and _, no digit first")
    return text
