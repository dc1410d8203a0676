"""How the commands are listed by ``--help``: under headings, each with its whole first sentence."""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

__all__ = ["Commands"]

PARTS: Final = {
    "One job": ("put", "show", "cancel", "reschedule", "retry", "delete", "history"),
    "Many jobs": ("list", "counts", "cancel-many", "retry-many", "delete-many", "purge"),
    "When they run": ("pause", "resume", "schedules"),
    "At work": ("work", "serve", "deliver", "bridge", "workers", "outlets", "spool", "token"),
    "The store": ("info", "migrate", "backup", "copy", "check", "verify", "vacuum", "new-key", "rekey"),
    "This program": ("demo", "version"),
}


class Commands(TyperGroup):
    """A group of commands whose help cuts no sentence off."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, in parts if they are those of `pywheel` itself."""
        widest = max(map(len, self.commands))
        for heading, names in PARTS.items() if ctx.parent is None else [("Commands", tuple(self.commands))]:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), _sentence(self.commands[name].help or "")) for name in names])


def _sentence(text: str) -> str:
    """Return the first sentence of a help text."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."
