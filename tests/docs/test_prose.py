"""Pages and sources are in plain English: the habits that made them hard to read do not come back."""

import inspect
import re

import pytest

from tests.docs.pages import PAGES, ROOT, prose

ROOMS = sorted(path.name for path in (ROOT / "src/pywheel").iterdir() if path.is_dir() and any(path.rglob("*.py")))

BEGINS = r"(?:^|(?<=[.!?:;] )|(?<=[.!?]\*\* )|(?<=- )|(?<=\| ))(?:\*\*)?"
VERBS = (
    "is|are|was|has|have|had|may|must|does|goes|comes|stands|runs|waits|stays|ends|costs|says|makes|takes|can|cannot"
)
FIRST = "Refused|Kept|Asked|Told|Returned|Missing|Needed|Wanted|Meant|Lost|Done|Called|Written|Taken|Measured|Shown"
HABITS = {  # and a sentence that has it
    "a clause with who as subject": (
        rf"{BEGINS}(?:Who|Whoever)\b(?![^.?!|]*\?)",
        "It works. Who puts a job rings a bell.",
    ),
    "a clause with what as subject": (
        rf"{BEGINS}(?:(?:That|Of|By) what|What) (?![^.?!|]*\?)[^.,;|]*\b(?:{VERBS})\b",
        "- What was put after it is missing.",
        "It is gone.\nWhat it raises is\nlogged.",
    ),
    "a verb in front": (rf"{BEGINS}(?:{FIRST}) (?:is|are|was|were)\b", "Refused is what the store does not take."),
    "so many, of no number": (r"\b[Ss]o (?:many|much|long)\b(?! (?:as|that))", "It holds so many jobs."),
    "but for": (r"\bbut for\b", "All of them, but for one."),
    "whoever": (r"\b[Ww]ho(?:so)?ever\b", "It reaches whoever drives."),
    "a final too": (r",? too[.;]", "The other one, too."),
    "unless told": (r"\bunless told\b", "It is a millisecond unless told."),
}


def found(text):
    """Return what a text has of these habits: each with the words around it."""
    text = re.sub(r"(?<=[^\n])\n(?=[a-zA-Z`(*\[])", " ", text)  # a sentence may be in several lines
    return [
        f"{habit}: {text[max(0, match.start() - 20) : match.end() + 40]}"
        for habit, (pattern, *_) in HABITS.items()
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_in_plain_english(name):
    assert found(prose(name)) == []


@pytest.mark.parametrize("room", ["*.py", *(f"{room}/**/*.py" for room in ROOMS)])
def test_docstrings_and_comments_are_in_plain_english(room):
    sources = sorted((ROOT / "src/pywheel").glob(room))
    assert sources
    assert [f"{path.name}: {habit}" for path in sources for said in spoken(path) for habit in found(said)] == []


def spoken(path):
    """Yield the docstrings of a source, and its comments: blocks, and those behind code."""
    source = path.read_text(encoding="utf-8")
    for text in re.finditer(r'(^ *r?)?"""(.*?)"""', source, re.DOTALL | re.MULTILINE):
        if text[1] is not None:  # it begins its line
            yield inspect.cleandoc(text[2])
    for block in re.findall(r"^(?: *# .*\n)+", source, re.MULTILINE):
        yield re.sub(r"^ *# ", "", block, flags=re.MULTILINE)
    yield from re.findall(r"\S  # (.*)$", source, re.MULTILINE)


def test_a_habit_is_found_in_a_sentence_that_has_it():
    for habit, (_, *sentences) in HABITS.items():
        for sentence in sentences:
            assert [line.partition(":")[0] for line in found(sentence)] == [habit], sentence


def test_plain_sentences_and_questions_have_none():
    assert (
        found("Who works? What is it? The worker that puts a job wakes another one. It is as long as it is wide.") == []
    )
