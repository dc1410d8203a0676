"""The links of the built site work, also in llms.txt. `make docs` builds the site first."""

from html.parser import HTMLParser
from importlib import import_module
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import LINK, ROOT

pytestmark = pytest.mark.docs
SITE = ROOT / "build" / "site"


class Page(HTMLParser):
    """The ids of a page, and what it leads to."""

    def __init__(self, path):
        super().__init__()
        self.ids, self.targets = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.add(given.get("id"))
        self.targets.update(given[name] for name in ("href", "src") if given.get(name))


@pytest.fixture(scope="module")
def pages():
    found = {path: Page(path) for path in SITE.rglob("*.html")}
    assert len(found) > 40, "make docs"
    return found


def test_links_lead_to_files_and_to_ids(pages):
    wrong = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = file.exists() and (
                not parts.fragment or file not in pages or unquote(parts.fragment) in pages[file].ids
            )
            if not there:
                wrong.append(f"{path.relative_to(SITE)}: {target}")
    assert wrong == []


def test_llms_txt_leads_to_the_sources_of_all_pages():
    text = (SITE / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# pywheel\n\n> ")
    targets = [target for target in LINK.findall(text) if "://" not in target]
    assert len(targets) > 40
    assert [target for target in targets if not (SITE / target).exists()] == []


@pytest.mark.parametrize("room", ["pywheel", "pywheel.jobs", "pywheel.outlets", "pywheel.observe", "pywheel.testing"])
def test_the_reference_has_what_a_room_exports(room, pages):
    ids = set().union(*(page.ids for path, page in pages.items() if path.parent.name == "api"))
    documented = {name.rpartition(".")[2] for name in ids if name and name.startswith("pywheel")}
    exported = {name: getattr(import_module(room), name) for name in import_module(room).__all__}
    assert {name for name, value in exported.items() if callable(value)} - documented == set()


def test_the_reference_shows_nothing_private_and_no_noise():
    for path in (SITE / "api").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert 'id="pywheel._' not in text, path.name
        assert "Alias for field number" not in text, path.name
        assert "TypeAliasForwardRef" not in text, path.name
