"""Docstrings with Args and Raises, as reStructuredText.

Napoleon itself would take the first words of an attribute's docstring for its type, if a colon follows them.
"""

import re
from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

ALIAS: Final = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
CONFIG: Final = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)


def convert(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    if lines and lines[0].startswith("Alias for field number"):  # what a NamedTuple says of itself
        lines.clear()
    elif what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, CONFIG, app, what, name, obj, options).lines()


def alias(_app: Sphinx, _what: str, _name: str, _obj: object, _options: Any, *parts: str | None) -> tuple[Any, ...]:
    """Return signature and result with the names of aliases, where they are parts of other types too."""
    return tuple(part and ALIAS.sub(r"\1", part) for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert)
    app.connect("autodoc-process-signature", alias)
    return {"parallel_read_safe": True}
