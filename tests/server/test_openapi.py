"""The document says what the service does, and is the one that is checked in."""

import json
from pathlib import Path

import pytest

from pywheel.server.api import openapi
from pywheel.server.api.operations import OPERATIONS
from pywheel.server.problems import KINDS

CHECKED_IN = Path(__file__).parents[2] / "docs" / "openapi.json"


def test_the_document_that_is_checked_in_is_current():
    assert CHECKED_IN.read_bytes() == openapi.encoded(OPERATIONS), "make openapi"


def test_the_document_is_served_with_the_path_that_the_service_is_under(api):
    served = api("GET", "/v1/openapi.json").json()
    assert served == json.loads(CHECKED_IN.read_bytes())


def test_every_operation_has_an_id_of_its_own_and_problems_that_are_known():
    ids = [operation.id for operation in OPERATIONS]
    assert len(set(ids)) == len(ids)
    assert all(id.isidentifier() for id in ids)
    assert all(set(operation.problems) <= set(KINDS) for operation in OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_operation_is_answered_as_the_document_says(api, operation):
    """By whatever it says to a request that has nothing in it."""
    path = operation.path.replace("{id}", "1").replace("{receipt}", "MS4x")
    if operation.id == "streamEvents":
        return
    answer = api(operation.method, path)
    known = json.loads(CHECKED_IN.read_bytes())["paths"][operation.path][operation.method.lower()]["responses"]
    assert str(answer.status_code) in known


def test_an_example_of_a_body_is_one_that_is_taken(api):
    for operation in OPERATIONS:
        if operation.example is not None and "{" not in operation.path and "by-key" not in operation.path:
            example = {**operation.example, **({"wait": 0} if "wait" in operation.example else {})}
            answer = api(operation.method, operation.path, json=example)
            assert answer.status_code < 300, (operation.id, answer.text)
