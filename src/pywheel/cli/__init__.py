"""The command line: ``pywheel``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; needs the extra ``cli``."""
    try:
        from .app import run

        sys.exit(run())
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f"pywheel: the command line needs {error.name}: pip install 'pywheel-timer[cli]'", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:  # most of a quick command's time is that of its imports
        sys.exit(130)
