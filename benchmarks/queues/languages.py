"""The commands that run the peers' programs, and the versions of their packages."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.queues.servers import Missing, find

NODE = Path(sys.prefix) / "node" / "node_modules"
"""The Makefile's folder for the packages for Node.js."""


def command(language: str) -> list[str]:
    """Return the beginning of a command, before a program's name and arguments."""
    return [sys.executable, "-m"] if language == "python" else [find("node", "nodejs npm")]


def environment() -> dict[str, str]:
    """Return the environment in which programs find their packages."""
    return os.environ | {"NODE_PATH": str(NODE)}


def version(language: str, package: str) -> str:
    """Return the version of a package."""
    if language == "node":
        try:
            return str(json.loads((NODE / package / "package.json").read_text())["version"])
        except FileNotFoundError as error:
            raise Missing(f"{package} is missing: make bench-jobs-peers installs it, if npm is there") from error
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise Missing(f"{package} is missing: make bench-jobs-peers installs it") from error
