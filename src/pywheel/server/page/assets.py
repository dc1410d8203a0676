"""The page's own files: read once, kept by browsers for as long as their content is the same."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["VERSION", "asset", "path_of"]

_FOLDER: Final = Path(__file__).with_name("static")
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FILES: Final = {file.name: file.read_bytes() for file in sorted(_FOLDER.iterdir()) if file.suffix in _TYPES}
# One script of three: htmx looks for its extensions right after it has run, which may be before another script came.
_FILES["scripts.js"] = b";\n".join(_FILES.pop(name) for name in ("htmx.min.js", "hx-sse.min.js", "page.js"))
VERSION: Final = sha256(b"\0".join(name.encode() + content for name, content in _FILES.items())).hexdigest()[:12]
"""Of all of them together: it is a part of their addresses."""


def path_of(name: str) -> str:
    """Return where a file is, below the page. KeyError: there is none."""
    _ = _FILES[name]
    return f"/static/{VERSION}/{name}"


async def asset(request: Request) -> Response:
    """Answer with a file. One of another version too, but that is not to be kept."""
    name = request.path_params["name"]
    if name not in _FILES:
        return Response("there is no such file", 404, media_type="text/plain")
    current = request.path_params["version"] == VERSION
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if current else "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(_FILES[name], headers=headers, media_type=_TYPES[Path(name).suffix])
