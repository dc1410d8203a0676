"""The config file of `pywheel deliver`: which topics go to which outlets.

    [outlets.shop]
    kind = "webhook"
    topics = ["shop.notify"]          # the name of the table unless told
    url = "https://shop.example/hook"
    secret_env = "SHOP_SECRET"
    concurrency = 100
    retry = ["5s", "30s", "5m", "1h"]

The rest of a table's words are its kind's own.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from .._errors import BadOption
from ..jobs.checks import did_you_mean, name
from ..jobs.retry import DEFAULT, Ladder, RetryPolicy
from . import KINDS, kind
from .contract import Outlet
from .settings import ConfigError, Place, Settings

__all__ = ["Configured", "load"]

_LONGEST_NAME: Final = 100
_LARGEST: Final = 1 << 20  # bytes of a file


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
        ConfigError: it cannot be read, or says what makes no sense. The message says where, and how to mend it.
        ExtraMissing: a package is not installed.
    """
    text, tables = _read(file)
    found: list[Configured] = []
    taken: dict[str, str] = {}
    for title, table in tables.items():
        place = Place(file, text, f"outlets.{title}")
        if not isinstance(table, dict):
            raise place.error(None, f"is a table: write [outlets.{title}] and its words below")
        configured = _configured(title, Settings(table, place))
        for topic in configured.topics:
            if topic in taken:
                raise place.error("topics", f"{topic!r:.80} goes to [outlets.{taken[topic]}] already")
            taken[topic] = title
        found.append(configured)
    return found


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        text = content.decode()
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # of TOML, with its line, or no UTF-8
        raise ConfigError(f"{file}: {error}") from error
    tables = document.pop("outlets", None)
    for word in document:
        hint = did_you_mean(word, ["outlets"]) or ": there are tables [outlets.NAME] only"
        raise ConfigError(f"{file}: {word[:80]} is not known{hint}")
    if not isinstance(tables, dict) or not tables:
        raise ConfigError(f'{file}: there is no outlet: write [outlets.shop], kind = "webhook", url = "https://..."')
    return text, tables


def _configured(title: str, settings: Settings) -> Configured:
    if len(title) > _LONGEST_NAME or ":" in title or not title.isprintable():
        raise settings.error(None, f"a name has 1 to {_LONGEST_NAME} characters, and no colon")
    wanted = settings.text("kind")
    if wanted not in KINDS:
        hint = did_you_mean(wanted, KINDS) or f": there are {', '.join(KINDS)}"
        raise settings.error("kind", f"{wanted!r:.60} is none{hint}")
    topics = settings.texts("topics", [title])
    concurrency = settings.whole("concurrency", 100)
    ttr = settings.seconds("ttr", 60)
    retry = _retry(settings)
    with settings.about(None):
        outlet = kind(wanted).configured(title, settings)
    settings.done()
    for topic in topics:
        with settings.about("topics"):
            name(topic, "topic", error=BadOption)
    if outlet.longest is not None and outlet.longest >= ttr:
        raise settings.error("ttr", f"must be longer than a delivery may take, which is {outlet.longest:g} s")
    return Configured(title, outlet, tuple(topics), concurrency, ttr, retry)


def _retry(settings: Settings) -> RetryPolicy:
    steps = settings.texts("retry", [f"{delay}ms" for delay in DEFAULT.delays])
    jitter = settings.number("jitter", DEFAULT.jitter, 0, 1)
    try:
        return Ladder(*steps, jitter=jitter)
    except BadOption as error:
        raise settings.error("retry", str(error)) from None
