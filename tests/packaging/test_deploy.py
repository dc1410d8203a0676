"""The files for containers match their schemas, and say what the commands know."""

import re
import sys
from pathlib import Path

import pytest

from tests.packaging.tools import ROOT, python, run

pytestmark = pytest.mark.packaging

DEPLOY = ROOT / "deploy"


def test_the_compose_file_matches_its_schema():
    file = DEPLOY / "compose" / "compose.yaml"
    run([*python("-m", "check_jsonschema"), "--builtin-schema", "vendor.compose-spec", file])


def test_the_manifests_match_the_schemas_of_kubernetes():
    said = run([*python("-m", "kubernetes_validate"), "--strict", DEPLOY / "kubernetes" / "pywheel.yaml"])
    assert said.count("passed") == 5


def test_a_linter_finds_nothing_in_the_dockerfile():
    assert run([Path(sys.executable).with_name("hadolint"), "--no-color", DEPLOY / "Dockerfile"]) == ""


def test_the_image_is_built_from_what_is_sent_to_it():
    """Its context leaves out all but what the build of a wheel reads."""
    kept = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept)
    extras = set(re.findall(r"\[([a-z,]+)\]", (DEPLOY / "Dockerfile").read_text()))
    assert len(extras) == 1
    project = (ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras.pop().split(","))
