"""What the guide of the jobs shows works as shown."""

import re
from pathlib import Path

import pytest

from pywheel import JobQueue

ROOT = Path(__file__).parents[2]
GUIDES = [ROOT / "docs" / name for name in ("jobs.md", "outlets.md", "stores.md", "tokens.md", "encryption.md")]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def examples():
    for guide in GUIDES:
        text = guide.read_text(encoding="utf-8")
        for number, match in enumerate(BLOCK.finditer(text), 1):
            yield pytest.param(guide, match[1], text.count("\n", 0, match.start(1)), id=f"{guide.stem}-{number}")


@pytest.mark.parametrize(("guide", "code", "line"), list(examples()))
def test_the_example_runs(guide, code, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    exec(compile("\n" * line + code, str(guide), "exec"), names)
    for value in names.values():
        if isinstance(value, JobQueue):
            value.close()


@pytest.mark.parametrize(
    "name", ["jobs.md", "jobs-inside.md", "outlets.md", "stores.md", "tokens.md", "encryption.md", "clients.md"]
)
def test_links_lead_to_files(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    assert [target for target in targets if not (ROOT / "docs" / target).exists()] == []
