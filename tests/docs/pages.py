"""The pages that people read, as they lie in the repository: plain Markdown."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


class Snippet(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int  # of the page, where its code begins
    language: str
    code: str
    after: str  # the line of the page that follows it

    def __str__(self):
        return f"{self.page}:{self.line}"


def snippets(name):
    """Return all fenced blocks of a page."""
    page = text(name)
    return [
        Snippet(
            name,
            page.count("\n", 0, found.start(2)) + 1,
            found[1],
            found[2],
            page[found.end() :].strip().partition("\n")[0],
        )
        for found in FENCE.finditer(page)
    ]


def blocks(name, language):
    """Return the fenced blocks of a page in a language."""
    return [snippet.code for snippet in snippets(name) if snippet.language == language]


def prose(name):
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text(name), flags=re.DOTALL | re.MULTILINE)


def anchors(name):
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found = []
    for heading in re.findall(r"^#+ (.+)$", prose(name), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found
