"""Random requests from the OpenAPI document, right ones and wrong ones: the answers match the document."""

from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
# A stream has no end.
CONFIG = {"checks": {"negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]}}}
SCHEMA = schemathesis.openapi.from_path(DOCUMENT, config=SchemathesisConfig.from_dict(CONFIG)).exclude(
    operation_id="streamEvents"
)
# What a text means, such as that of a delay, no schema says; and many wrong tokens are answered with 429.
UNCHECKED = {"positive_data_acceptance", "ignored_auth"}
CHECKED = [check for check in CHECKS.get_all() if check.__name__ not in UNCHECKED]


@SCHEMA.parametrize()
@settings(max_examples=30, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_service_answers_as_the_document_says(case, server, bearer):
    if isinstance(case.body, dict) and type(case.body.get("wait")) in (int, float):
        case.body["wait"] = min(case.body["wait"], 0.01)  # nobody puts anything meanwhile
    # As a parameter the text "false" is what the boolean is.
    assume(isinstance((case.query or {}).get("body"), bool | None))
    case.call_and_validate(base_url=server.url, headers=bearer, checks=CHECKED)
