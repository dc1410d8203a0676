"""The OpenAPI document, made from the table of operations and the types of bodies and answers."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec
from starlette.responses import Response

from ..problems import KINDS, MEDIA_TYPE
from . import schema
from .call import Call, JsonResponse, Operation

_VERSION: Final = "1"  # of the API, as in its paths; not of the package, as the document is checked in
_REF: Final = "#/components/schemas/{name}"
_COMMON: Final = ("bad-request", "bad-parameter", "method-not-allowed", "internal-error", "store-away", "store-busy")
_GUARDED: Final = ("token-missing", "token-unknown", "scope-missing", "too-many-failures")
_WITH_BODY: Final = ("bad-json", "bad-body", "too-deep", "too-large", "wrong-type", "too-slow")

_HEADERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "Idempotency-Key": (
        "A text of your choice, such as a UUID. Repeated with it a request changes nothing; the answer is the same.",
        {"type": "string", "minLength": 1, "maxLength": 255},
    ),
    "If-Match": ("The job's ETag: if it has changed since, nothing is done.", {"type": "string"}),
    "If-None-Match": ("The job's ETag: if it has not changed since, the answer is 304.", {"type": "string"}),
    "traceparent": ("W3C trace context, kept with the job. One that is malformed counts as none.", {"type": "string"}),
    "Last-Event-ID": ("The id of the last event that was seen: the stream goes on after it.", {"type": "string"}),
}
_PATHS: Final = {
    "id": ("The job's id.", {"type": "string", "pattern": "^-?[0-9]{1,19}$"}, "1234567"),
    "name": ("The schedule's name.", {"type": "string", "minLength": 1, "maxLength": 180}, "nightly"),
    "worker": ("The worker's id.", {"type": "string", "minLength": 1}, "app1:4711@5f0c3b9a"),
    "topic": ("The topic.", {"type": "string", "minLength": 1, "maxLength": schema.LONGEST}, "mail"),
    "receipt": ("The receipt that came with the reserved job.", {"type": "string", "minLength": 1}, "MTI0LjEubWFj"),
}
_DESCRIPTION: Final = """\
Durable delayed jobs: put them, take them when they are due, settle them.

Each request needs `Authorization: Bearer <token>`, unless the server is open; what the token must allow stands at each
operation. Every answer that is not a success is a problem document (RFC 9457): its `type` is stable, its `detail` says
how to mend it. Ids are text. Times are RFC 3339. Delays are seconds, or text such as "30m". Answers may get new
members.
"""


@cache
def document(operations: tuple[Operation, ...]) -> dict[str, Any]:
    """Return the document."""
    types = {schema.ProblemOut}
    for operation in operations:
        types.update(kind for kind in (operation.body, *operation.answers.values()) if kind not in (None, bytes, dict))
    _, components = msgspec.json.schema_components(sorted(types, key=_name), ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pywheel",
            "version": _VERSION,
            "summary": "Durable delayed jobs",
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": _tidy(components),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {"description": "A problem.", "content": _content(MEDIA_TYPE, schema.ProblemOut)}},
        },
    }


def encoded(operations: tuple[Operation, ...]) -> bytes:
    """Return the document in its checked-in form."""
    return msgspec.json.format(msgspec.json.encode(document(operations)), indent=1) + b"\n"


async def serve(call: Call) -> Response:
    """Answer with the document, with the path that this service is under."""
    from .operations import OPERATIONS  # which lists this

    known = document(OPERATIONS)
    prefix = call.scope.get("root_path", "")
    return JsonResponse({**known, "servers": [{"url": prefix or "/"}]}, headers={"cache-control": "max-age=300"})


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    notes = [operation.notes] if operation.notes else []
    if operation.scope is None:
        described["security"] = []
    else:
        notes.append(f"Needs the scope `{operation.scope}`.")
    described["description"] = " ".join(notes)
    if operation.body is not None:
        content = _content("application/json", operation.body)
        if operation.example is not None:
            content["application/json"]["example"] = operation.example
        described["requestBody"] = {"required": operation.body_needed, "content": content}
    return {name: value for name, value in described.items() if value or name == "security"}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found = [
        {"name": name, "in": "path", "required": True, "description": description, "schema": kind, "example": example}
        for name, (description, kind, example) in _PATHS.items()
        if f"{{{name}}}" in operation.path
    ]
    if operation.query is not None:
        _, components = msgspec.json.schema_components([operation.query], ref_template=_REF)
        known = components[_name(operation.query)]
        _typed(known)
        required = known.get("required", ())
        for name, kind in known["properties"].items():
            found.append({"name": name, "in": "query", "required": name in required, "schema": _simple(kind)})
    for name in (*(("Idempotency-Key",) if operation.changes else ()), *operation.headers):
        description, kind = _HEADERS[name]
        found.append({"name": name, "in": "header", "required": False, "description": description, "schema": kind})
    return found


def _simple(kind: dict[str, Any]) -> dict[str, Any]:
    """Return the type of a parameter: it may be absent, but never null."""
    options = [option for option in kind.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1 and len(kind["anyOf"]) == 2:
        rest = {name: value for name, value in kind.items() if name not in ("anyOf", "default")}
        return {**options[0], **rest}
    return kind


def _responses(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, kind in operation.answers.items():
        answer: dict[str, Any] = {"description": operation.summary if kind is not None else _SAYINGS[status]}
        if kind is bytes:
            answer["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
        elif kind is dict:
            answer["content"] = {"application/json": {"schema": {"type": "object"}}}
        elif kind is not None:
            answer["content"] = _content("application/json", kind)
        if operation.id in ("getJob", "getJobByKey"):
            answer["headers"] = {"ETag": {"schema": {"type": "string"}}}
        if operation.changes and not operation.nonced:
            answer["headers"] = {"Idempotency-Replayed": {"schema": {"type": "string", "const": "true"}}}
        found[str(status)] = answer
    kinds = [*_COMMON, *operation.problems]
    kinds += _GUARDED if operation.scope is not None else ()
    kinds += _WITH_BODY if operation.body is not None else ()
    kinds += ("read-only", "key-reused") if operation.changes else ()
    kinds += ("key-busy",) if operation.changes and not operation.nonced else ()
    by_status: dict[int, list[str]] = {}
    for kind in dict.fromkeys(kinds):
        by_status.setdefault(KINDS[kind].status, []).append(kind)
    for status, names in sorted(by_status.items()):
        found[str(status)] = {
            "description": ", ".join(f"`{name}`" for name in names),
            "content": _content(MEDIA_TYPE, schema.ProblemOut),
        }
    found |= {status: {"description": text} for status, text in _OF_SERVER.items()}
    return dict(sorted(found.items()))


_OF_SERVER: Final = {
    "414": "The address is longer than 64 KiB. Without content.",
    "431": "The headers are longer than 64 KiB. Without content.",
}
_SAYINGS: Final = {204: "Done; there is nothing to say.", 304: "It has not changed."}


def _content(media: str, kind: Any) -> dict[str, Any]:
    return {media: {"schema": {"$ref": _REF.format(name=_name(kind))}}}


def _name(kind: Any) -> str:
    return str(kind.__name__)


def _tidy(components: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas without msgspec's titles, which generators would take for names."""
    for component in components.values():
        component.pop("title", None)
        _typed(component)
    return components


def _typed(kind: Any) -> None:
    """Adapt a type for client generators: give enums a type, and drop defaults of fields with two types."""
    for inner in kind.values() if isinstance(kind, dict) else kind:
        if isinstance(inner, dict | list):
            _typed(inner)
    if not isinstance(kind, dict):
        return
    if isinstance(kind.get("enum"), list) and all(isinstance(value, str) for value in kind["enum"]):
        kind.setdefault("type", "string")
    if len([option for option in kind.get("anyOf", ()) if option != {"type": "null"}]) > 1:
        default = kind.pop("default", None)
        if default is not None:
            kind["description"] = f"{kind.get('description', '')} Default: {default:g}.".strip()
