"""What the README and the guides show works as shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pywheel import JobQueue

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
# Their examples run in tests/inlets and tests/frameworks, or need a server.
ELSEWHERE = ("docs/coming-from", "docs/frameworks", "docs/outlets-brokers", "docs/stores-")
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


def test_the_readme_begins_with_an_example_of_ten_lines() -> None:
    first = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first is not None
    assert len([line for line in first[1].splitlines() if line]) <= 10


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    assert [target for target in targets if not (ROOT / name).parent.joinpath(target).exists()] == []
