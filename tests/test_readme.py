"""What the README and the guides show works as shown."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import JobQueue
from tests.docs.pages import PAGES, ROOT, blocks

# Their examples run in tests/inlets and tests/frameworks, or need a server.
ELSEWHERE = ("docs/coming-from-x-delayed-message", "docs/frameworks", "docs/outlets-brokers", "docs/stores-")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples() -> list[object]:
    return [
        pytest.param(code, name, text.count("\n", 0, match.start(1)), id=f"{name}-{number}")
        for name in PAGES
        if not name.startswith(ELSEWHERE)
        for text in [(ROOT / name).read_text(encoding="utf-8")]
        for number, match in enumerate(BLOCK.finditer(text), 1)
        for code in [match[1]]
    ]


@pytest.mark.parametrize(("code", "name", "line"), examples())
def test_the_example_runs(code: str, name: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "\n" * line + code  # so that a failure names the line in the document
    names: dict[str, object] = {"__name__": "example"}
    # Not with the annotations of this file, which are text.
    exec(compile(source, str(ROOT / name), "exec", dont_inherit=True), names)
    for value in names.values():
        if isinstance(value, JobQueue):
            value.close()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start-jobs.md"])
def test_the_first_example_delivers_a_job_in_five_lines(page: str, tmp_path: Path) -> None:
    code = blocks(page, "py")[0]
    assert len(code.splitlines()) <= 5
    with subprocess.Popen([sys.executable, "-uc", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() in {"closing order 7\n", "hello, world\n"}
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=30) == 0
