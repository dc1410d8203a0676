"""The file that says what to watch for and whom to tell: TOML.

[limits]                     # of every topic
late = "30s"
dead = 5
no_worker = "15s"            # false: never

[topics."reports.*"]         # instead of those
late = "1h"

[watch]
every = "5s"
store_away = "15s"

[[to]]
webhook = "https://example.org/alarms"
headers = { Authorization = "Bearer ..." }

[[to]]
command = ["mail", "-s", "pywheel", "ops@example.org"]
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from .._errors import BadJob
from ..jobs.checks import did_you_mean, whole
from ..jobs.durations import duration
from .alarm_channels import Channel, Command, Webhook
from .alarms import Limits, Rules

__all__ = ["Watching", "read"]

_LIMITS: Final = ("late", "dead", "no_worker")
_WATCH: Final = ("every", "between", "calm", "within", "store_away")
_DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Watching:
    """What to watch for, how often to look, and whom to tell."""

    rules: Rules = field(default_factory=Rules)
    every: float = 5.0  # seconds between looks
    between: float = 30.0  # seconds between messages to one receiver, at least
    channels: tuple[Channel, ...] = ()


def read(path: Path, watching: Watching) -> Watching:
    """Return what a file says, and for the rest what there is already.

    Raises:
        BadJob: it cannot be read, or something in it makes no sense.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadJob(f"{path}: {error}") from None
    try:
        return _read(content, watching)
    except BadJob as error:
        raise BadJob(f"{path}: {error}") from None


def _read(content: Mapping[str, Any], watching: Watching) -> Watching:
    _only(content, ("limits", "topics", "watch", "to"), "the file")
    limits = limits_of(_table(content.get("limits", {}), "limits"), watching.rules.limits)
    topics = _table(content.get("topics", {}), "topics")
    watch = _table(content.get("watch", {}), "watch")
    _only(watch, _WATCH, "[watch]")
    known: dict[str, Any] = {name: seconds(watch[name], name) for name in _WATCH if name in watch}
    rules = replace(
        watching.rules,
        limits=limits,
        topics={pattern: limits_of(_table(words, pattern), limits) for pattern, words in topics.items()},
        **{name: known.pop(name) for name in ("calm", "within", "store_away") if name in known},
    )
    to = content.get("to", [])
    if not isinstance(to, list):
        raise BadJob("whom to tell is written as [[to]]")
    channels = tuple(_channel(_table(words, "to")) for words in to)
    return replace(watching, rules=rules, channels=(*watching.channels, *channels), **known)


def limits_of(words: Mapping[str, Any], limits: Limits) -> Limits:
    """Return limits with some of them changed. BadJob."""
    _only(words, _LIMITS, "limits")
    changed: dict[str, Any] = {name: seconds(words[name], name) for name in ("late", "no_worker") if name in words}
    if "dead" in words:
        changed["dead"] = None if words["dead"] is False else whole(words["dead"], "dead", 10**9)
    return replace(limits, **changed)


def seconds(value: Any, name: str) -> float | None:
    """Return a duration in seconds, None for false. BadJob if it is none, or longer than a day."""
    if value is False and name in ("late", "no_worker", "store_away"):
        return None
    found = duration(value, name, 1) / 1000
    if found > _DAY:
        raise BadJob(f"{name} is a day at most")
    return found


def _channel(words: Mapping[str, Any]) -> Channel:
    _only(words, ("webhook", "headers", "command"), "[[to]]")
    webhook, command, headers = words.get("webhook"), words.get("command"), words.get("headers", {})
    if isinstance(webhook, str) and command is None:
        table = _table(headers, "headers")
        if not all(isinstance(value, str) for value in table.values()):
            raise BadJob("headers are text by name")
        return Webhook(webhook, table)
    if isinstance(command, str):
        command = shlex.split(command)
    if isinstance(command, list) and all(isinstance(part, str) for part in command) and webhook is None:
        return Command(command)
    raise BadJob("[[to]] has a webhook, an address, or a command, a list of its arguments")


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadJob(f"{name[:80]} is a table")
    return value


def _only(words: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in words:
        if name not in known:
            raise BadJob(f"{where} has no {name[:80]!r}{did_you_mean(name, known) or f': there are {known}'}")
