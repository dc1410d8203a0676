"""None of our checks is an `assert`, which -O would remove."""

import pytest

from tests.isolated.child import ROOT, run

pytestmark = pytest.mark.stress
REFUSING = [f"{ROOT}/tests/core/test_{name}.py" for name in ("bad_arrays", "bad_numbers", "max_pending")]


def test_bad_input_is_refused_under_python_o():
    """On all implementations. The tests' own asserts are gone as well; `pytest.raises` is not."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestConfigWarning"]
    result = run("-OO", "-m", "pytest", f"--rootdir={ROOT}", "-c", f"{ROOT}/pyproject.toml", *options, "-k",
                 "not small and not tiny", *REFUSING)  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert " passed" in result.stdout
