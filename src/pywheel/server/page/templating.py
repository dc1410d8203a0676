"""Templates and their functions, and the page's own files, which browsers cache until the content changes."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from ...jobs.job import Outcome, State
from . import words

SIGNS: Final = {
    State.DELAYED: "◷",
    State.RUNNING: "▶",
    State.DONE: "✓",
    State.DEAD: "✕",
    State.CANCELLED: "⊘",
    Outcome.FAILED: "✕",
    Outcome.LOST: "?",
    Outcome.RELEASED: "↩",
}
"""The sign beside each colour of states and outcomes, so that nobody needs to tell the colours apart."""


_FOLDER: Final = Path(__file__).with_name("static")
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FILES: Final = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _TYPES}
# One script of three: htmx looks for its extensions right after it has run, perhaps before another script arrives.
_FILES["scripts.js"] = b";\n".join(_FILES.pop(name) for name in ("htmx.min.js", "hx-sse.min.js", "page.js"))
VERSION: Final = sha256(b"\0".join(name.encode() + content for name, content in _FILES.items())).hexdigest()[:12]
"""The hash of all files together, a part of their addresses."""


def path_of(name: str) -> str:
    """Return the path of a file, below the page."""
    return f"/static/{VERSION}/{name}"


async def asset(request: Request) -> Response:
    """Answer with a file. An address with another version gets the current file, not to be cached."""
    name = request.path_params["name"]
    if name not in _FILES:
        return Response("there is no such file", 404, media_type="text/plain")
    current = request.path_params["version"] == VERSION
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if current else "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(_FILES[name], headers=headers, media_type=_TYPES[Path(name).suffix])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"


def _mark(name: str) -> str:
    """Return a part of the id of a row: found again by its place, a row with the focus would become another one's."""
    return sha256(name.encode()).hexdigest()[:12]


_environment: Final = Environment(
    loader=PackageLoader("pywheel.server.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.globals.update(asset=path_of, signs=SIGNS, states=list(State))
_WORDS: Final = ("first_line", "iso", "late", "number", "pace", "preview", "stamp", "when")
_environment.filters.update(
    {name: getattr(words, name) for name in _WORDS}, cut=_cut, length_of=words.length, mark=_mark
)


def prepare() -> None:
    """Compile every template, so that the first viewer does not wait for that."""
    for name in _environment.list_templates():
        _environment.get_template(name)


def render(template: str, **values: Any) -> str:
    """Return the text of a template, with all values escaped."""
    return _environment.get_template(template).render(values)


def fragment(name: str, **values: Any) -> str:
    """Return the text of a macro in the fragments, for these values."""
    return str(getattr(_environment.get_template("fragments.html").module, name)(**values)).strip()
