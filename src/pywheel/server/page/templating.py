"""Templates, and what they may use."""

from __future__ import annotations

from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...jobs.job import Outcome, State
from . import bodies, words
from .assets import path_of

__all__ = ["fragment", "prepare", "render"]

SIGNS: Final = {
    State.DELAYED: "◷",
    State.RUNNING: "▶",
    State.DONE: "✓",
    State.DEAD: "✕",
    State.CANCELLED: "⊘",
    Outcome.DONE: "✓",
    Outcome.FAILED: "✕",
    Outcome.LOST: "?",
    Outcome.RELEASED: "↩",
    Outcome.CANCELLED: "⊘",
}
"""Beside each colour: nobody has to tell them apart."""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"


_environment: Final = Environment(
    loader=PackageLoader("pywheel.server.page"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.globals.update(asset=path_of, signs=SIGNS, states=list(State))
_environment.filters.update(
    first_line=words.first_line,
    iso=words.iso,
    late=words.late,
    cut=_cut,
    length_of=words.length,
    preview=bodies.preview,
    number=words.number,
    pace=words.pace,
    size=words.size,
    stamp=words.stamp,
    when=words.when,
)


def prepare() -> None:
    """Compile every template: the first viewer does not wait for that."""
    for name in _environment.list_templates():
        _environment.get_template(name)


def render(template: str, **values: Any) -> str:
    """Return a template's text, everything escaped."""
    return _environment.get_template(template).render(values)


def fragment(template: str, name: str, **values: Any) -> str:
    """Return what one macro of a template gives for the values, in their order."""
    module = _environment.get_template(template).module
    return str(getattr(module, name)(*values.values())).strip()
