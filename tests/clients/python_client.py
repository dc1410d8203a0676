"""The scenarios in Python, with httpx2. The server's own OpenAPI document describes the operations."""

import json
import os
import sys
import time
from pathlib import Path

import httpx2

MISSING = object()


def main(client):
    scenarios = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["scenarios"]
    headers = {"authorization": f"Bearer {os.environ['PYWHEEL_TOKEN']}"}
    with httpx2.Client(base_url=os.environ["PYWHEEL_URL"], headers=headers, timeout=30) as http:
        document = http.get("/v1/openapi.json").json()
        calls = {
            operation["operationId"]: (method, path)
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
        }
        for number, scenario in enumerate(scenarios):
            known = {"topic": f"{client}-{number}"}
            for place, step in enumerate(scenario["steps"]):
                take(http, calls, filled(step, known), known, f"{scenario['name']}, step {place}")
            print("ok", scenario["name"])


def take(http, calls, step, known, where):
    if "sleep" in step:
        time.sleep(step["sleep"])
        return
    method, path = calls[step["call"]]
    for name, value in step.get("path", {}).items():
        path = path.replace(f"{{{name}}}", value)
    words = {"params": step.get("query"), "headers": step.get("headers")}
    if "body" in step:
        words["json"] = step["body"]
    answer = http.request(method, path, **words)
    assert answer.status_code == step["status"], f"{where}: {answer.status_code} {answer.text}"
    found = answer.json() if answer.content else None
    for pointer, wanted in step.get("is", {}).items():
        assert at(found, pointer) == wanted, f"{where}: {pointer} of {answer.text} is not {wanted!r}"
    for pointer in step.get("absent", ()):
        assert at(found, pointer) is MISSING, f"{where}: there is {pointer} in {answer.text}"
    known |= {name: at(found, pointer) for name, pointer in step.get("save", {}).items()}
    known |= {name: answer.headers[header] for name, header in step.get("save_headers", {}).items()}


def filled(value, known):
    if isinstance(value, dict):
        return {name: filled(inner, known) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, known) for inner in value]
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(f"{{{name}}}", text)
    return value


def at(value, pointer):
    for part in pointer.split("/")[1:]:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError):
            return MISSING
    return value


if __name__ == "__main__":
    main("python")
