"""Differences between databases: types, lists of values, locks, and the forms of writing statements."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .statement import Do, Select, Steps

if TYPE_CHECKING:
    from .transaction import Transaction

_MARK: Final = re.compile(r"\{([a-z]+)(?: ([a-z]+))?(?:: ([a-z_, ]+))?\}")
EACH: Final = re.compile(r"\{each ([a-z]+) ([a-z]): ((?:[^{}]|\{[^{}]*\})+)\}")
"""The mark ``{each table j: condition}``."""
_LIST: Final = re.compile(r"\{([a-z]+): ([a-z_, ]+)\}")


def lists_of(text: str) -> dict[str, list[str]]:
    """Return the columns of the lists of values in a template, by name."""
    return {name: [one.strip() for one in columns.split(",")] for name, columns in _LIST.findall(text)}


class Dialect(ABC):
    """A kind of database, one object each. It renders each template once."""

    kinds: ClassVar[Mapping[str, str]]
    """The names of column types by kind, and other words of a table."""
    lock: ClassVar[str] = "FOR UPDATE OF {}"
    skip: ClassVar[str] = "FOR UPDATE OF {} SKIP LOCKED"
    then: ClassVar[str] = "JOIN"
    bytes_in_lists: ClassVar[int] = 0
    """How many bytes a list of values may have in all, in columns of bytes."""
    take = ""
    """A statement that claims the first due jobs of a topic and priority, if the database has one for that.

    It returns the columns of `rows.TAKEN` of each job. It claims all jobs that it looks at; it claims none if one of
    them lost a lease before, or if the bodies are more than `bytes`. It looks at jobs due from `first` on. It looks at
    none if the topic is paused, or has other priorities than `lanes`.
    """
    looked = ""
    """The number of jobs that the last `take` has looked at, as SQL."""

    def __init__(self) -> None:
        self._rendered: dict[Any, Any] = {}

    def text(self, template: str) -> str:
        """Return a template in this database's SQL."""
        found = self._rendered.get(template)
        if found is None:
            joined = EACH.sub(lambda match: self.each(*match.groups()), template)
            found = self._rendered[template] = self.named(_MARK.sub(self._mark, joined))
        return found

    def _mark(self, match: re.Match[str]) -> str:
        word, name, columns = match.groups()
        some = [] if columns is None else [column.strip() for column in columns.split(",")]
        if columns is not None and name is None:
            return self.source(word, some)
        match word:
            case "else":
                return self.instead(name, some)
            case "in":
                return self.among(name)
            case "now":
                return self.now()
            case "draw":
                return self.draw()
            case "then":
                return self.then
            case "lock":
                return self.lock.format(name)
            case "skip":
                return self.skip.format(name)
            case _:
                return self.kinds[word]

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the value that `make` made for a key, once."""
        found = self._rendered.get(key)
        if found is None:
            found = self._rendered[key] = make()
        return found

    @property
    def pausing(self) -> str:
        """The statement that pauses or resumes a topic."""
        return "UPDATE topic SET paused = :paused WHERE id = :topic"

    def moment(self, now: int, delay: int = 0) -> Any:
        """Return the time of a transaction plus `delay` ms, as a value of a row."""
        return now + delay

    def announce(self, tx: Transaction, worker: str, topics: str | None) -> Steps[None]:  # noqa: ARG002
        """Store which topics a worker handles, as JSON; None: the worker handles none any more."""
        text = "INSERT INTO member (name, topics, beat) VALUES (:worker, :topics, {now}) {else name: topics}"
        yield (Do(text, {"worker": worker, "topics": topics}),)

    @abstractmethod
    def count(self, tx: Transaction) -> Steps[None]:
        """Write a transaction's changes of the counts. Called at its end."""

    @abstractmethod
    def tallies(self) -> Sequence[Select]:
        """Return the statements that read (topic, live, done, cancelled, dead), to be added up."""

    def before_forgetting(self, tx: Transaction, highest: int) -> Steps[None]:  # noqa: ARG002
        """Prepare for the deletion of jobs; `highest` is their largest id."""
        yield from ()

    def named(self, text: str) -> str:
        """Return SQL with each ``:name`` written as the driver takes it."""
        return text

    @abstractmethod
    def now(self) -> str:
        """Return an expression for the store's time in ms."""

    def draw(self) -> str:
        """Return an expression for a number from -1 to 1 that is drawn for each row."""
        return "(2 * random() - 1)"

    def each(self, table: str, alias: str, condition: str) -> str:
        """Return a join of each row before it with the rows of a table that an index finds for it."""
        return f"{self.then} {table} {alias} ON {condition}"

    @abstractmethod
    def source(self, name: str, columns: Sequence[str]) -> str:
        """Return a table of the rows in a value, with an alias of the same name."""

    @abstractmethod
    def among(self, name: str) -> str:
        """Return a condition for the column before it: to be one of the numbers in a value."""

    def instead(self, key: str, columns: Sequence[str]) -> str:
        """Return the end of an INSERT that overwrites these columns of a row with the same key."""
        return f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in columns)}"
