"""The config file of `pywheel deliver`: which topics go to which outlets.

    [outlets.shop]
    kind = "webhook"
    topics = ["shop.notify"]          # by default the name of the table
    url = "https://shop.example/hook"
    secrets_env = "SHOP_SECRET"
    concurrency = 100
    retry = ["5s", "30s", "5m", "1h"]

All other words of a table are arguments of its kind's class, which checks them. For each word there is one that ends in
`_env`, which names a variable with the value, and one that ends in `_file`, which names a file with it.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._errors import BadOption, PywheelError
from ..jobs.checks import did_you_mean, name, whole
from ..jobs.durations import duration
from ..jobs.retry import DEFAULT, Ladder, RetryPolicy
from . import KINDS, kind
from .contract import Outlet, texts

_WORDS: Final = ("concurrency", "jitter", "kind", "retry", "topics", "ttr")
"""The words of every table, whatever its kind."""
_LONGEST_NAME: Final = 100
_MOST: Final = 10_000  # deliveries of a topic at once
_LARGEST: Final = 1 << 20  # bytes of a file
_PASSWORD: Final = re.compile(r"://[^/?#\s]*:[^/?#\s]*@")


class ConfigError(PywheelError, ValueError):
    """An error in a config file. The message names file, table and word, and how to mend it."""


class Configured(NamedTuple):
    """An outlet of a config file, and how its topics are handled."""

    name: str
    outlet: Outlet[Any]
    topics: tuple[str, ...]
    concurrency: int
    ttr: float  # seconds
    retry: RetryPolicy


def load(file: Path) -> list[Configured]:
    """Return the outlets of a config file, in its order.

    Raises:
        ConfigError: the file cannot be read, or is invalid. The message says where, and how to mend it.
    """
    found: list[Configured] = []
    taken: dict[str, str] = {}
    for title, words in _read(file).items():
        table = _Table(file, title)
        if not isinstance(words, dict):
            raise table.error(None, f"is a table: write [outlets.{title}] and its words below")
        configured = table.configured(words)
        for topic in configured.topics:
            if topic in taken:
                raise table.error("topics", f"{topic!r:.80} goes to [outlets.{taken[topic]}] already")
            taken[topic] = title
        found.append(configured)
    return found


def _read(file: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(_content(file))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # invalid TOML, with its line, or no UTF-8
        raise ConfigError(f"{file}: {error}") from error
    tables = document.pop("outlets", None)
    for word in document:
        hint = did_you_mean(word, ["outlets"]) or ": there are tables [outlets.NAME] only"
        raise ConfigError(f"{file}: {word[:80]} is not known{hint}")
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f'{file}: there is no outlet: write [outlets.shop], kind = "webhook", url = "https://..."')
    return tables


def _content(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_LARGEST + 1).decode()


class _Table:
    """A table of a config file."""

    def __init__(self, file: Path, title: str) -> None:
        self._file, self._title = file, title

    def error(self, word: str | None, message: str) -> ConfigError:
        """Return an error about a word of the table, or about the whole table."""
        return ConfigError(f"{self._file}: [outlets.{self._title}]{f' {word}' if word else ''}: {message}")

    @contextmanager
    def _about(self, word: str | None) -> Iterator[None]:
        """Turn an error inside the block into one about a word, or about the table."""
        try:
            yield
        except (BadOption, OSError) as error:
            raise self.error(word, str(error)) from error

    def configured(self, given: dict[str, Any]) -> Configured:
        """Return the outlet that the table describes."""
        if len(self._title) > _LONGEST_NAME or ":" in self._title or not self._title.isprintable():
            raise self.error(None, f"a name has 1 to {_LONGEST_NAME} characters, and no colon")
        wanted = given.pop("kind", None)
        if wanted is None:
            raise self.error(None, "kind is missing: a text in quotes")
        if not isinstance(wanted, str) or wanted not in KINDS:
            hint = did_you_mean(str(wanted), KINDS) or f": there are {', '.join(KINDS)}"
            raise self.error("kind", f"must be a text, and {wanted!r:.60} is none{hint}")
        with self._about("topics"):
            topics = texts(given.pop("topics", [self._title]), "topics", least=1)
            for topic in topics:
                name(topic, "topic", error=BadOption)
        with self._about("concurrency"):
            concurrency = whole(given.pop("concurrency", 100), "concurrency", _MOST, error=BadOption)
        with self._about("ttr"):
            ttr = duration(given.pop("ttr", 60), "ttr", 1, error=BadOption) / 1000
        with self._about("retry"):
            steps = texts(given.pop("retry", [f"{delay}ms" for delay in DEFAULT.delays]), "retry", least=1)
            retry: RetryPolicy = Ladder(*steps)
        with self._about("jitter"):
            retry = Ladder(*steps, jitter=given.pop("jitter", DEFAULT.jitter))
        outlet = self._made(kind(wanted), given)
        if outlet.longest is not None and outlet.longest >= ttr:
            raise self.error("ttr", f"must be longer than a delivery may take, which is {outlet.longest:g} s")
        return Configured(self._title, outlet, topics, concurrency, ttr, retry)

    def _made(self, its: type[Outlet[Any]], given: dict[str, Any]) -> Outlet[Any]:
        """Return an outlet of a class, with these words as its arguments."""
        known = inspect.signature(its).parameters
        words = self._resolved(given, its.secret_words)
        for word, value in words.items():
            if word not in known or word == "name":
                there = sorted({*known, *_WORDS} - {"name"})
                hint = did_you_mean(word, there) or f": there are {', '.join(there)}"
                raise self.error(word, f"is not known here{hint}")
            if isinstance(known[word].default, bool) and not isinstance(value, bool):
                raise self.error(word, f"must be true or false, not {value!r:.60}")
        for word, parameter in known.items():
            if parameter.default is parameter.empty and word not in words:
                raise self.error(None, f"{word} is missing: give one of {word}, {word}_env and {word}_file")
        with self._about(None):  # OSError: from TLS
            return its(**words, name=self._title)

    def _resolved(self, given: dict[str, Any], secret: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return words with the contents of their variables and files.

        A secret must not be in the file itself, which is shown, copied and checked in.
        """
        found: dict[str, Any] = {}
        for said, value in given.items():
            word, _, how = said.rpartition("_")
            if how in ("env", "file") and word:
                read = self._variable if how == "env" else self._of_file
                value = [read(said, each) for each in value] if isinstance(value, list) else read(said, value)
            else:
                word = said
                if word in secret or (isinstance(value, str) and _PASSWORD.search(value)):
                    what = "secret" if word in secret else "password"
                    where = f"name a variable in {word}_env, or a file in {word}_file"
                    raise self.error(word, f"a {what} does not belong here: {where}")
            if word in found:
                raise self.error(said, f"give one of {word}, {word}_env and {word}_file")
            found[word] = self._resolved(value) if isinstance(value, dict) else value
        return found

    def _variable(self, word: str, name: Any) -> str:
        value = os.environ.get(str(name), "").strip()
        if not value:
            raise self.error(word, f"the variable {name} is not set, or empty")
        return value

    def _of_file(self, word: str, name: Any) -> str:
        """Return the contents of a file. Its path is relative to the config file."""
        path = self._file.parent / str(name)
        try:
            value = _content(path).strip()
        except (OSError, ValueError) as error:
            raise self.error(word, f"{path} cannot be read: {error}") from None
        if not value:
            raise self.error(word, f"{path} is empty")
        return value
