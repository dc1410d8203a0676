"""The fields of a form that a browser sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

__all__ = ["Fields", "fields", "texts"]

_MOST: Final = 256 << 10  # bytes: the ids of many jobs, and a search
_NUMBER: Final = 2_000  # fields


class Fields(dict[str, list[str]]):
    """Each field with its values, in order."""

    def one(self, name: str) -> str:
        """Return the last value of a field, empty if there is none."""
        return self.get(name, [""])[-1]

    @property
    def singles(self) -> Mapping[str, str]:
        """Every field with its last value."""
        return {name: values[-1] for name, values in self.items()}


def texts(given: Mapping[str, object], names: Iterable[str], as_typed: Collection[str] = ()) -> dict[str, str]:
    """Return these fields as text, without the spaces around it unless it counts as it was typed."""
    found = {name: str(given.get(name, "")) for name in names}
    return {name: text if name in as_typed else text.strip() for name, text in found.items()}


async def fields(request: Request, most: int = _MOST) -> Fields:
    """Return what a form of up to so many bytes says. HTTPException: it is too long, or no form."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > most:
            raise HTTPException(413, f"this form may have {most} bytes")
    found = Fields()
    try:
        pairs = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_NUMBER)
    except ValueError:  # no UTF-8, or too many
        raise HTTPException(400, "this is no form of this page") from None
    for name, value in pairs:
        found.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return found
