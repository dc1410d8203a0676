"""Commands about the keys of encrypted bodies: make a new one, and encrypt bodies anew."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from .._errors import BadOption
from ..client.rekey import Rekeyed
from ..client.rekey import rekey as encrypt_anew
from ..jobs.keyring import Keyring
from ..jobs.keyring import new_key as random_key
from .options import NO, Target
from .output import Output, note, progress


def new_key(
    out: Output,
    id: Annotated[
        str | None, typer.Argument(help="The key's name, which is not a secret; default: today's date.")
    ] = None,
) -> None:
    """Print a new key for encrypted bodies: 32 random bytes, as id:base64."""
    key = random_key(id or datetime.now(UTC).strftime("%Y-%m-%d"))
    out.emit({"key": key}, key)


def rekey(
    on: Target,
    keys_file: Annotated[
        Path | None,
        typer.Option("--keys-file", help="The keys, id:base64 each, the first one encrypts; else PYWHEEL_KEYS."),
    ] = None,
    after: Annotated[int, typer.Option(help="Go on behind this job's id.", min=0)] = 0,
) -> int:
    """Encrypt the bodies of all jobs and schedules with the first key, also plain ones; workers may run meanwhile.

    You may stop it and run it again: bodies that are done are left. Exit code 1: some could not be read, or changed
    meanwhile.
    """
    if keys_file is None and "PYWHEEL_KEYS" not in os.environ:
        raise BadOption("there are no keys: give --keys-file, or set PYWHEEL_KEYS; `pywheel new-key` makes a key")
    keys = Keyring.from_env() if keys_file is None else Keyring.from_file(keys_file)
    said = Rekeyed(after)
    with on.existing() as queue:
        total = sum(map(sum, queue.topics.counts().values()))
        with progress("encrypting", total) as bar:

            def show(found: Rekeyed) -> None:
                nonlocal said
                said = found
                bar(found.rewritten + found.current + found.unreadable + found.changed)

            try:
                done = encrypt_anew(queue.store, keys, after=after, progress=show)
            except BaseException:
                note(f"pywheel: {said.rewritten:,} were encrypted; --after {said.last} goes on")
                raise
    text = f"{done.rewritten:,} encrypted with {keys.current}, {done.current:,} were"
    if done.unreadable:
        text += f"; {done.unreadable:,} could not be read"
    if done.changed:
        text += f"; {done.changed:,} were changed meanwhile: run it again"
    on.emit(done._asdict(), text)
    return NO if done.unreadable or done.changed else 0
