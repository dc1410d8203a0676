"""Items that report their release, and finalisers whose failures are not lost."""

from typing import Any


class Item:
    """Can be weakly referenced, and can be part of a cycle."""


class Recorded:
    """Writes its name down when it is released."""

    def __init__(self, name: Any, released: list[Any]) -> None:
        self.name = name
        self.released = released

    def __del__(self) -> None:
        self.released.append(self.name)


class Meddler:
    """Calls something when it is released; what that raises is kept, as a finaliser cannot raise."""

    def __init__(self, action: Any, errors: list[BaseException]) -> None:
        self.action = action
        self.errors = errors

    def __del__(self) -> None:
        try:
            self.action()
        except BaseException as error:
            self.errors.append(error)
