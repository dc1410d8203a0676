"""Docstrings with Args and Raises, as reStructuredText.

Napoleon itself would take the first words of an attribute's docstring for its type, if a colon follows them.
"""

from typing import Any, Final

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

CONFIG: Final = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)


def convert(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    if what not in ("attribute", "data", "property"):
        lines[:] = GoogleDocstring(lines, CONFIG, app, what, name, obj, options).lines()


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", convert)
    return {"parallel_read_safe": True}
