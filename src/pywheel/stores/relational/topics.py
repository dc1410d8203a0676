"""The numbers of topics. They never change once they are committed."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Topics"]


class Topics:
    """Names and numbers, as far as they were heard of."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def number(self, name: str) -> int | None:
        """Return the number of a topic, None if none is known."""
        return self.numbers.get(name)

    def learn(self, numbers: Mapping[str, int]) -> None:
        """Take in numbers of topics."""
        for name, number in numbers.items():
            self.numbers[name] = number
            self.names[number] = name

    def forget(self) -> None:
        """Know none any more: some may have been rolled back."""
        self.numbers.clear()
        self.names.clear()
