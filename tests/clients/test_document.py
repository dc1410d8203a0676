"""Requests made up from the OpenAPI document, right ones and wrong ones: the answers are what it says."""

import json
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_bytes())
del DOCUMENT["security"]  # the server is open
# A stream has no end.
CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]}}}
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=SchemathesisConfig.from_dict(CONFIG)).exclude(
    operation_id="streamEvents"
)
# What a text means, such as that of a delay, no schema says.
CHECKED = [check for check in CHECKS.get_all() if check.__name__ != "positive_data_acceptance"]


@SCHEMA.parametrize()
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_service_answers_as_the_document_says(case, server):
    if isinstance(case.body, dict) and type(case.body.get("wait")) in (int, float):
        case.body["wait"] = min(case.body["wait"], 0.01)  # nobody puts anything meanwhile
    case.call_and_validate(base_url=server.url, checks=CHECKED)
