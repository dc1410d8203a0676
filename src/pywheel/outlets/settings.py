"""One table of a config file, as an outlet reads it. A word that nobody asks for is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from .._errors import BadOption, PywheelError
from ..jobs.checks import did_you_mean
from ..jobs.durations import duration

__all__ = ["ConfigError", "Place", "Settings"]

_LARGEST: Final = 1 << 16  # bytes of a secret's file
_NO_DEFAULT: Final[Any] = object()


class ConfigError(PywheelError, ValueError):
    """A config file says what makes no sense. The message names the file, the line and the word, and how to mend it."""


class Place:
    """Where in a file something stands: a table of it."""

    def __init__(self, file: Path, text: str, table: str) -> None:
        self.file, self._lines, self._table = file, text.splitlines(), table

    def error(self, word: str | None, message: str) -> ConfigError:
        """Return an error about a word of the table, or about all of it."""
        line = self._line(word)
        at = f"{self.file}:{line}" if line else str(self.file)
        about = f"[{self._table}] {word}" if word else f"[{self._table}]"
        return ConfigError(f"{at}: {about}: {message}")

    def _line(self, word: str | None) -> int | None:
        """Return the line of a word, or of its table; None where a file says it in another way."""
        parts = r"\s*\.\s*".join(f"[\"']?{re.escape(part)}[\"']?" for part in self._table.split("."))
        header = re.compile(rf"\s*\[\s*{parts}\s*\]")
        begin = next((number for number, line in enumerate(self._lines) if header.match(line)), None)
        if begin is None:
            return None
        key = None if word is None else re.compile(rf"\s*[\"']?{re.escape(word)}[\"']?\s*=")
        for number in range(begin + 1, len(self._lines)):
            line = self._lines[number]
            if key is None or line.lstrip().startswith("["):
                break
            if key.match(line):
                return number + 1
        return begin + 1


class Settings:
    """Reads a table. Every method raises ConfigError for a value that is not what it asks for."""

    def __init__(self, table: Mapping[str, Any], place: Place) -> None:
        self._left = dict(table)
        self._asked: list[str] = []
        self._place = place

    def error(self, word: str | None, message: str) -> ConfigError:
        """Return an error about a word of this table, to be raised."""
        return self._place.error(word, message)

    @contextmanager
    def about(self, word: str | None) -> Iterator[None]:
        """Raise what is refused within as an error about a word of this table, or about all of it."""
        try:
            yield
        except ConfigError:
            raise
        except (BadOption, OSError) as error:  # of TLS, of an address
            raise self.error(word, str(error)) from error

    def _take(self, word: str, default: Any, kinds: type | tuple[type, ...], what: str) -> Any:
        self._asked.append(word)
        if word not in self._left:
            if default is _NO_DEFAULT:
                raise self.error(None, f"{word} is missing: {what}")
            return default
        value = self._left.pop(word)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise self.error(word, f"must be {what}, not {value!r:.60}")
        return value

    def says(self, word: str) -> bool:
        """Whether the table has a word, which nobody has asked for yet."""
        return word in self._left

    def text(self, word: str, default: str | None = _NO_DEFAULT) -> Any:
        """Return a text, not an empty one; None only if that is the default."""
        value = self._take(word, default, str, "a text in quotes")
        if value == "" and default != "":
            raise self.error(word, "must not be empty")
        return value

    def texts(self, word: str, default: Iterable[str] = ()) -> list[str]:
        """Return a list of texts; one text is a list of one."""
        default = list(default)
        value = self._take(word, default, (str, list), "a list of texts")
        values = [value] if isinstance(value, str) else value
        if not values and default:
            raise self.error(word, "is empty: leave the word out, or name one at least")
        if not all(isinstance(text, str) and text for text in values):
            raise self.error(word, "must be a list of texts, none of them empty")
        return list(values)

    def flag(self, word: str, default: bool) -> bool:
        """Return true or false."""
        return bool(self._take(word, default, bool, "true or false"))

    def whole(self, word: str, default: int | None = _NO_DEFAULT, *, least: int = 1, most: int = 10_000) -> Any:
        """Return a whole number between two; None only if that is the default."""
        value = self._take(word, default, int, f"a whole number from {least} to {most}")
        if value is not None and not least <= value <= most:
            raise self.error(word, f"must be a whole number from {least} to {most}, not {value}")
        return value

    def number(self, word: str, default: float, least: float, most: float) -> float:
        """Return a number between two."""
        value = self._take(word, default, (int, float), f"a number from {least:g} to {most:g}")
        if not least <= value <= most:
            raise self.error(word, f"must be a number from {least:g} to {most:g}, not {value:g}")
        return float(value)

    def wholes(self, word: str, default: Iterable[int] = (), *, least: int = 1, most: int = 10_000) -> list[int]:
        """Return a list of whole numbers between two."""
        values = self._take(word, list(default), list, f"a list of whole numbers from {least} to {most}")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise self.error(word, f"must be whole numbers from {least} to {most}, not {value!r:.60}")
        return list(values)

    def path(self, word: str) -> Path | None:
        """Return the path of a file that can be read, relative to the config file; None if it is not said."""
        name = self.text(word, None)
        if name is None:
            return None
        path: Path = self._place.file.parent / name
        if not os.access(path, os.R_OK):
            raise self.error(word, f"{path} cannot be read")
        return path

    def headers(self, word: str) -> dict[str, str]:
        """Return a table of texts by name; ``<name>_env = "VARIABLE"`` takes the text from the environment."""
        found = {}
        for name, value in self._take(word, {}, dict, "a table of texts by name").items():
            if not isinstance(value, str):
                raise self.error(word, f"{name} must be a text in quotes, not {value!r:.60}")
            header = name.removesuffix("_env")
            found[header] = value if header == name else self._variable(f"{word}.{name}", value)
        return found

    def seconds(self, word: str, default: float, *, least: float = 0.001) -> float:
        """Return a length of time in seconds, written as a number of seconds or as a text such as ``"30s"``."""
        value = self._take(word, default, (int, float, str), 'seconds, or a text such as "30s"')
        try:
            return duration(value, word, max(round(least * 1000), 0), error=BadOption) / 1000
        except BadOption as error:
            raise self.error(word, str(error)) from None

    def secrets(self, word: str) -> list[str]:
        """Return what `<word>_env` and `<word>_file` lead to: variables and files, one of each or lists.

        A secret does not stand in the file itself, which is shown, copied and checked in.
        """
        if word in self._left:
            raise self.error(
                word, f"a secret does not stand here: name a variable in {word}_env, or a file in {word}_file"
            )
        found = [self._variable(f"{word}_env", name) for name in self.texts(f"{word}_env")]
        return found + [self._content(word, name) for name in self.texts(f"{word}_file")]

    def address(self, word: str) -> str | None:
        """Return an address: the word's own, or what `<word>_env` or `<word>_file` leads to; None if none is said."""
        url, secrets = self.text(word, None), self.secrets(word)
        if (url is not None) + len(secrets) > 1:
            raise self.error(word, f"give one address: {word}, or with a password {word}_env or {word}_file")
        try:
            password = None if url is None else urlsplit(url).password
        except ValueError as error:
            raise self.error(word, f"is no address: {error}") from None
        if password is not None:
            raise self.error(
                word, f"a password does not stand here: name a variable in {word}_env, or a file in {word}_file"
            )
        return secrets[0] if secrets else url

    def _variable(self, word: str, name: str) -> str:
        value = os.environ.get(name, "").strip()
        if not value:
            raise self.error(word, f"the variable {name} is not set, or empty")
        return value

    def _content(self, word: str, name: str) -> str:
        path = self._place.file.parent / name
        try:
            with path.open("rb") as file:
                value = file.read(_LARGEST).decode().strip()
        except (OSError, ValueError) as error:
            raise self.error(f"{word}_file", f"{path} cannot be read: {error}") from None
        if not value:
            raise self.error(f"{word}_file", f"{path} is empty")
        return value

    def done(self) -> None:
        """Raise ConfigError if a word is left that nobody has asked for."""
        for word in self._left:
            known = ", ".join(sorted(self._asked))
            raise self.error(word, f"is not known here{did_you_mean(word, self._asked) or f': there are {known}'}")
