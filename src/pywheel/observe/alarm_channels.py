"""Where alarms are told: by a webhook, to a command, or in the log. What fails is tried again."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from .._errors import BadJob, PywheelError
from .alarms import Alarm

__all__ = ["AlarmNotTold", "Channel", "Command", "Log", "Teller", "Webhook"]

_LOGGER: Final = logging.getLogger("pywheel.alarms")
_TIMEOUT: Final = 10.0  # seconds that a webhook may take for each of its steps
_COMMAND: Final = 30.0  # seconds that a command may take
_MOST: Final = 100  # alarms in a message
_BACKOFF: Final = (5.0, 300.0)  # seconds between tries: first, longest


class AlarmNotTold(PywheelError):
    """A channel did not take an alarm."""


class Channel(Protocol):
    """Takes messages."""

    def send(self, message: Mapping[str, Any]) -> None:
        """Deliver a message. AlarmNotTold."""


class Webhook:
    """POSTs a message as JSON. Only 2xx is success; redirects are not followed.

    Args:
        url: http or https. It may be a secret: logs and errors name its host alone.
        headers: what the receiver wants, such as Authorization.
    """

    def __init__(self, url: str, headers: Mapping[str, str] = {}) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadJob("a webhook is an address such as https://example.org/alarms")
        self._url = url
        self._headers = {"Content-Type": "application/json", "User-Agent": "pywheel", **headers}
        self._place = f"{parts.scheme}://{parts.hostname}"
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __str__(self) -> str:
        return f"webhook {self._place}"

    def send(self, message: Mapping[str, Any]) -> None:
        """Deliver a message. AlarmNotTold for any answer but 2xx, and for none within 10 s."""
        request = urllib.request.Request(self._url, json.dumps(message).encode(), self._headers, method="POST")
        try:
            self._opener.open(request, timeout=_TIMEOUT).close()
        except urllib.error.HTTPError as error:
            error.close()
            raise AlarmNotTold(f"{self} answered {error.code}") from None
        except (OSError, ValueError) as error:
            raise AlarmNotTold(f"{self}: {getattr(error, 'reason', None) or type(error).__name__}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow nothing: what is told is meant for one receiver."""


class Command:
    """Runs a program for each message, which it gets as JSON on its standard input. No shell is involved."""

    def __init__(self, arguments: Sequence[str]) -> None:
        if not arguments:
            raise BadJob("an alarm command needs a program")
        self._arguments = list(arguments)

    def __str__(self) -> str:
        return f"command {self._arguments[0]}"

    def send(self, message: Mapping[str, Any]) -> None:
        """Deliver a message. AlarmNotTold if the program fails, or is killed as it takes longer than 30 s."""
        try:
            process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise AlarmNotTold(f"{self}: {error.strerror}") from None
        try:
            with suppress(BrokenPipeError):
                process.communicate(json.dumps(message).encode(), timeout=_COMMAND)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise AlarmNotTold(f"{self} took longer than {_COMMAND:g} s, and was killed") from None
        if process.returncode:
            raise AlarmNotTold(f"{self} ended with exit code {process.returncode}")


class Log:
    """Writes each alarm to the log ``pywheel.alarms``: an event ``alarm``, and its fields."""

    def __str__(self) -> str:
        return "log"

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line for each alarm."""
        for alarm in message["alarms"]:
            level = logging.ERROR if alarm["state"] == "firing" else logging.INFO
            fields = {"store": message["store"], **alarm}
            line = f"alarm {alarm['alarm']} {alarm['state']}: {alarm['text']}"
            _LOGGER.log(level, "%s", line, extra={"event": "alarm", "fields": fields})


class Teller:
    """Tells one channel what it has not been told yet, in a thread of its own: one that hangs holds up nobody.

    It compares what fires now with what the channel knows, and sends the difference. So an alarm that comes and goes
    between two messages is not told at all, and nothing is lost when a message fails: it is tried again, later.

    Args:
        channel: who is told.
        store: what the store is called.
        between: seconds from one message to the next, at least.
    """

    def __init__(self, channel: Channel, store: str, between: float = 30.0) -> None:
        self._channel = channel
        self._store = store
        self._between = between
        self._known: dict[tuple[str, str | None], Alarm] = {}
        self._at = 0.0
        self._failures = 0
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a message is under way."""
        return self._thread is not None and self._thread.is_alive()

    def tell(self, firing: Mapping[tuple[str, str | None], Alarm], over: Iterable[Alarm], now: float) -> None:
        """Send what the channel does not know, if there is anything, and if it is time to. Does not wait.

        `over` are alarms that ended, for their texts.
        """
        for alarm in over:
            known = (alarm.name, alarm.topic)
            if known in self._known:
                self._known[known] = alarm
        if self.busy or now < self._at:
            return
        begun = [alarm for key, alarm in firing.items() if key not in self._known]
        ended = [_over(alarm) for key, alarm in self._known.items() if key not in firing]
        if begun or ended:
            self._at = now + self._between
            message = _message(self._store, [*begun, *ended])
            arguments = (message, dict(firing), now)
            self._thread = threading.Thread(target=self._send, args=arguments, name="pywheel-alarm", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for a message that is under way."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _send(self, message: Mapping[str, Any], firing: dict[tuple[str, str | None], Alarm], now: float) -> None:
        try:
            self._channel.send(message)
        except AlarmNotTold as error:
            self._failures += 1
            pause = max(min(_BACKOFF[0] * 2 ** min(self._failures - 1, 20), _BACKOFF[1]), self._between)
            self._at = now + pause
            _LOGGER.warning("an alarm was not told, again in %.0f s: %s", pause, error)
        else:
            self._failures = 0
            self._known = firing


def _over(alarm: Alarm) -> Alarm:
    """Return the end of an alarm, whose own text may have come while a message was under way."""
    return alarm._replace(firing=False, text=f"over: {alarm.text}") if alarm.firing else alarm


def _message(store: str, alarms: Sequence[Alarm]) -> dict[str, Any]:
    """Return what is sent."""
    shown = alarms[:_MOST]
    lines = [alarm.text for alarm in shown]
    if len(alarms) > len(shown):
        lines.append(f"and {len(alarms) - len(shown)} more")
    return {
        "source": "pywheel",
        "store": store,
        "host": socket.gethostname(),
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "text": "\n".join(lines),
        "alarms": [alarm.record(_when) for alarm in shown],
        "more": len(alarms) - len(shown),
    }


def _when(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
