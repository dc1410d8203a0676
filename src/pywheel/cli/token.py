"""Commands about tokens, which give rights by HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from .._errors import BadOption
from ..jobs.checks import did_you_mean
from ..server.tokens import ROLES, SCOPES, Grant, Tokens, id_of
from .options import NO, Group, Target, bound, parts
from .output import note

token = Group("token", "Tokens for the HTTP API and the page: add, list, remove.")


@token.command()
def add(
    on: Target,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="What it allows: read, put, work, admin; several with commas.")
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="Instead of scopes, a role of the page: viewer, operator, admin.")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topics", help="Patterns of topics, such as 'shop.*'; several with commas.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Until when: 2027-01-01 (UTC), ISO 8601, or from now, such as 90d.")
    ] = None,
    note_: Annotated[str, typer.Option("--note", help="The holder, as a note for people.")] = "",
) -> None:
    """Make a token, and print it: it is not shown again."""
    scopes, patterns, end = _scopes(scope, role), ["*"] if topics is None else parts(",".join(topics)), _end(until)
    with on.opened() as queue:
        tokens = Tokens(queue.store)
        secret = tokens.add(scopes, patterns, end, note_)
        address = queue.store.url
    id = id_of(secret)
    on.emit({"id": id, "token": secret, **_about(scopes, patterns, end, note_)}, secret)
    what = f"{', '.join(scopes)} for {', '.join(patterns)}"
    note(f"pywheel: token {id}, {what}, is in {address}; keep it now, it is not shown again")


@token.command("list")
def list_tokens(on: Target) -> None:
    """List the tokens, without their secrets. Expired ones are listed for 30 more days."""
    with on.existing() as queue:
        found = Tokens(queue.store).list()
        now = datetime.fromtimestamp(queue.store.clock.wall() / 1_000, UTC)
    titles = ("id", "scopes", "topics", "until", "note", "made")
    on.emit_rows(titles, [_line(one, now) for one in found], [_record(one, now) for one in found])


@token.command()
def remove(
    on: Target,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of tokens.", metavar="[ID]...")] = None,
    note_: Annotated[str | None, typer.Option("--note", help="All tokens with exactly this note.")] = None,
) -> int:
    """Remove tokens, which cannot be used any more. Exit code 1: some were not found."""
    if (not ids) == (note_ is None):
        raise BadOption("give ids of tokens, or --note, one of them")
    if note_ == "":  # as an unset variable of a shell, which would remove all tokens without a note
        raise BadOption("--note is empty: give the ids of tokens that have no note")
    given = [_id(text) for text in ids or ()]
    with on.existing() as queue:
        tokens = Tokens(queue.store)
        chosen = given if note_ is None else [one.id for one in tokens.list() if one.name == note_]
        removed = [id for id in dict.fromkeys(chosen) if tokens.remove(id)]
    on.emit({"removed": removed}, f"removed: {', '.join(removed)}" if removed else "no such token")
    return 0 if removed and len(removed) == len(set(chosen)) else NO


# ---- values of options ----------------------------------------------------------------------------------------------


def _scopes(scope: list[str] | None, role: str | None) -> list[str]:
    given = parts(",".join(scope or ()))
    if bool(given) == (role is not None):
        raise BadOption(f"give --scope, some of {', '.join(SCOPES)}, or --role, one of {', '.join(ROLES)}")
    if role is None:
        return given
    if role not in ROLES:
        hint = did_you_mean(role, ROLES)
        raise BadOption(f"{role[:80]!r} is not a role{hint}: {', '.join(ROLES)}")
    return list(ROLES[role])


def _end(until: str | None) -> datetime | None:
    """Return a time; for a date alone, the beginning of that day in UTC."""
    if until is not None and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", until, re.ASCII):
        until += "T00:00:00Z"
    return bound(until, "--until")


def _id(text: str) -> str:
    id = id_of(text)
    if id is None:
        raise BadOption(f"{text[:20]!r} is not an id of a token: `pywheel token list` has them; or give --note")
    return id


# ---- rows and records -----------------------------------------------------------------------------------------------


def _about(scopes: Iterable[str], topics: Iterable[str], until: datetime | None, text: str) -> dict[str, Any]:
    end = None if until is None else until.isoformat()
    return {"scopes": list(scopes), "topics": list(topics), "until": end, "note": text}


def _record(one: Grant, now: datetime) -> dict[str, Any]:
    made = None if one.made is None else one.made.isoformat()
    over = one.until is not None and one.until <= now
    scopes = [scope for scope in SCOPES if scope in one.scopes]
    return {"id": one.id, **_about(scopes, one.topics, one.until, one.name), "made": made, "over": over}


def _line(one: Grant, now: datetime) -> tuple[str, ...]:
    record = _record(one, now)
    until = "" if record["until"] is None else record["until"] + (", over" if record["over"] else "")
    made = "" if one.made is None else one.made.isoformat(timespec="seconds")
    return one.id, ",".join(record["scopes"]), ",".join(one.topics), until, one.name, made
