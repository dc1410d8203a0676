"""The workflows are well-formed, need few rights, and build everything that is promised."""

import re
import sys

import pytest

from tests.packaging.tools import ROOT, python, run

pytestmark = pytest.mark.packaging

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PYTHONS = ["cp311", "cp312", "cp313", "cp314", "cp314t", "cp315", "cp315t"]
PLATFORMS = {
    "linux": ["manylinux_x86_64", "musllinux_x86_64", "manylinux_aarch64", "musllinux_aarch64"],
    "macos": ["macosx_x86_64", "macosx_arm64"],
    "windows": ["win_amd64", "win_arm64"],
}
ARCHS = {"linux": "x86_64,aarch64", "macos": "x86_64,arm64", "windows": "AMD64,ARM64"}
WRITES = {"release": ["attestations: write", "id-token: write"], "security": ["security-events: write"]}
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15-intel", "macos-15", "windows-2025", "windows-11-arm"}


def matches_schema(schema, *files):
    """Check files against a schema that comes with check-jsonschema."""
    run([*python("-m", "check_jsonschema"), "--builtin-schema", schema, *files])


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_the_workflows_match_the_schema(schema):
    assert [path.stem for path in WORKFLOWS] == ["ci", "nightly", "release", "security", "wheels"]
    matches_schema(schema, *WORKFLOWS)


def test_dependabot_and_the_templates_match_their_schemas():
    config = GITHUB / "ISSUE_TEMPLATE" / "config.yml"
    forms = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path != config]
    matches_schema("vendor.dependabot", GITHUB / "dependabot.yml")
    matches_schema("vendor.github-issue-config", config)
    matches_schema("vendor.github-issue-forms", *forms)


@pytest.mark.parametrize("module", ["tests.stores.servers", "tests.clients.tools"])
def test_what_servers_are_missing_is_found_out_before_anything_is_installed(module):
    run([sys.executable, "-S", "-m", module], cwd=ROOT)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned(workflow):
    used = re.findall(r"uses: *(\S+)", workflow.read_text())
    assert used
    pinned = re.compile(r"\./\S+|[\w-]+(/[\w-]+)+@[0-9a-f]{40}|pypa/gh-action-pypi-publish@release/v1")
    assert [action for action in used if not pinned.fullmatch(action)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_may_be_written_but_the_publishing_token_attestations_and_findings(workflow):
    text = workflow.read_text()
    assert re.search(r"^permissions:\n  contents: read\n\n", text, re.MULTILINE)
    assert re.findall(r"[\w-]+: write", text) == WRITES.get(workflow.stem, [])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_cibuildwheel_builds_every_promised_wheel(platform):
    options = ["--print-build-identifiers", "--platform", platform, "--archs", ARCHS[platform]]
    identifiers = run([*python("-m", "cibuildwheel"), *options, ROOT]).split()
    assert set(identifiers) == {f"{tag}-{suffix}" for tag in PYTHONS for suffix in PLATFORMS[platform]}


def test_every_platform_has_a_runner_of_its_own():
    workflow = (GITHUB / "workflows" / "wheels.yml").read_text()
    listed = re.findall(r"^ +- ((?:ubuntu|macos|windows)\S+)", workflow, re.MULTILINE)
    assert sorted(listed) == sorted(RUNNERS)


def test_every_python_runs_all_that_needs_no_server():
    [marks] = re.findall(r"^HERE = (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f'-m "{marks}"' in (GITHUB / "workflows" / "ci.yml").read_text()


def test_what_the_wheels_are_made_of_has_them_built():
    [paths] = re.findall(r"paths: \[(.+)\]", (GITHUB / "workflows" / "wheels.yml").read_text())
    assert {"src/wheel/**", "setup.py", "pyproject.toml", "MANIFEST.in"} <= set(paths.split(", "))


def test_a_release_waits_for_all_tests():
    release = (GITHUB / "workflows" / "release.yml").read_text()
    assert "  ci:\n    uses: ./.github/workflows/ci.yml\n" in release
    assert "  wheels:\n    needs: ci\n" in release
