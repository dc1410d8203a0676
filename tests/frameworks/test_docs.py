"""What docs/frameworks.md shows works as shown."""

import subprocess
import sys

import pytest

from tests.isolated.child import environment
from tests.test_readme import BLOCK, ROOT

PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code", [match[1] for match in BLOCK.finditer(PAGE)], ids=["late", "starlette", "loop", "flask"]
)
def test_the_example_runs(code, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
