"""The contents of the site, from index.md: its lists of links are the sections of the sidebar, and all is llms.txt.

So the pages are in order in one place, and that is a page that people read.
"""

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

REPOSITORY: Final = "https://github.com/pywheel/pywheel/blob/main/"
SECTION: Final = re.compile(r"^## (.+)\n\n((?:- .+\n(?:  .+\n)*)+)", re.MULTILINE)
LINK: Final = re.compile(r"^- \[(.+?)\]\((.+?)\)", re.MULTILINE)


HERE: Final = re.compile(r"\n\n((?:- \[.+\]\(#.+\)\n)+)")


def sections(index: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each section's heading, with the titles and targets of its links."""
    return [(heading, LINK.findall(links)) for heading, links in SECTION.findall(index)]


def toctree(heading: str, links: list[tuple[str, str]]) -> str:
    lines = [f"{title} <{target.removesuffix('.md').removesuffix('.rst')}>" for title, target in links]
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {heading}", "", *lines, "```", ""])


def llms(index: str) -> str:
    """Return index.md with links to the sources of the pages, as they lie on the site."""
    return re.sub(r"\]\(([\w/-]+\.(?:md|rst))\)", r"](_sources/\1.txt)", index).replace("](images/", "](_images/")


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Let what leads out of docs/ lead to the repository, and give index.md its sidebar."""
    source[0] = re.sub(r"\]\((?:\.\./)+", f"]({REPOSITORY}", source[0])
    source[0] = HERE.sub(r"\n\n{.on-this-page}\n\1", source[0], count=1)  # beside it the site has its own
    if name == app.config.root_doc:
        source[0] += "".join(toctree(heading, links) for heading, links in sections(source[0]))


def finished(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        index = (Path(app.srcdir) / "index.md").read_text(encoding="utf-8")
        (Path(app.outdir) / "llms.txt").write_text(llms(index), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", read)
    app.connect("build-finished", finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
