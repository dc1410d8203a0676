"""Commands, options and settings files that pages name exist."""

import re

import pytest
from typer.main import get_command

from pywheel.cli.app import application
from pywheel.outlets.config import load
from tests.docs.pages import PAGES, blocks, text

SPAN = re.compile(r"`(pywheel [a-z-]+[^`\n]*)`|^(?: {4})?(pywheel [a-z-]+ [^\n]*)$", re.MULTILINE)
COMMANDS = get_command(application())
PROSE = "calls your Python"


def typed(page):
    """Return the words behind `pywheel` of each line that a page tells to type."""
    lines = ["".join(found) for found in SPAN.findall(text(page))]
    parts = [part.strip() for line in lines if PROSE not in line for part in re.split(r";|\s#\s", line)]
    return [part.split()[1:] for part in parts if part.startswith("pywheel ") and not part.startswith("pywheel --")]


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)])
def test_commands_that_a_page_tells_to_type_are_there_with_their_options(page):
    for words in typed(page):
        command, rest = COMMANDS, list(words)
        while rest and rest[0] in getattr(command, "commands", ()):
            command = command.commands[rest.pop(0)]
        assert rest != words, f"no such command: pywheel {' '.join(words)}"
        options = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
        given = {found[0] for word in rest if (found := re.match(r"--[a-z-]+", word))}
        assert given <= options, words


@pytest.mark.parametrize("code", blocks("docs/coming-from.md", "toml"), ids=["dead-letters", "plugin"])
def test_settings_for_those_from_rabbitmq_are_understood(code, monkeypatch, tmp_path):
    monkeypatch.setenv("PYWHEEL_BROKER", "amqp://shop:secret@localhost")
    (tmp_path / "outlets.toml").write_text(code, encoding="utf-8")
    [configured] = load(tmp_path / "outlets.toml")
    assert configured.outlet.kind == "rabbitmq"
