"""Tables for people, lines for pipes; streams that are full, closed, or know few characters."""

import errno
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pywheel import __version__, implementation
from pywheel.cli.app import application
from tests.isolated.child import environment, run

LONG = "x" * 300
STYLE = re.compile(r"\x1b\[[0-9;]*m")
FULL = Path("/dev/full")


def test_in_a_pipe_lines_have_tabs_and_nothing_is_cut(call, queue):
    queue.put(LONG, {"order": LONG}, key="a\tb\nc")
    out = call("list")[1]
    titles, row = out.splitlines()
    assert titles.split("\t") == ["id", "topic", "key", "state", "due", "attempt", "body", "error"]
    cells = row.split("\t")
    assert (cells[1], cells[2], cells[6]) == (LONG, "a\\x09b\\x0ac", f'{{"order":"{LONG}"}}')
    assert f"topic\t{LONG}\n" in call("show", 1)[1]
    assert call("counts")[1].splitlines()[1].split("\t") == [LONG, "1", "0", "0", "0", "0", ""]


def test_on_a_terminal_a_table_is_cut_to_its_width_and_short_columns_stay(call, queue, terminal):
    queue.put(LONG, {"order": LONG})
    titles, row = STYLE.sub("", call("list")[1]).splitlines()
    assert len(row) <= 100
    assert titles.split() == ["id", "topic", "state", "due", "attempt", "body"]  # those in which something stands
    assert re.match(r' *1 +x+… +delayed +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +0\S* +\{"order":', row)
    assert max(map(len, STYLE.sub("", call("counts")[1]).splitlines())) <= 100


def test_names_that_would_move_the_cursor_are_shown_harmless(call, fails, queue, terminal):
    queue.put("t\x1b[2J", b"\x1b[31m", key="\a")
    out = call("list")[1]
    assert "\x1b" not in STYLE.sub("", out)
    assert "\a" not in out
    said = fails(1, "pause", "t\x1b[2")  # did you mean ...?
    assert ("\x1b" in said, "t\\x1b[2J" in said) == (False, True)


def test_every_command_that_prints_has_json():
    without = {"work", "serve"}
    for command in application().registered_commands:
        name = command.name or command.callback.__name__
        assert ("as_json" in command.callback.__annotations__) is (name not in without), name


def test_the_version_can_be_asked_for_as_of_any_program(call):
    code, out, err = call("--version")
    assert (code, err) == (0, "")
    assert out.startswith(f"pywheel {__version__} ({implementation}), Python 3.")


# ---- streams --------------------------------------------------------------------------------------------------------


def pipe(*arguments, **words):
    return subprocess.Popen(
        [sys.executable, "-m", "pywheel.cli", *arguments], env=environment(), stderr=subprocess.PIPE, **words
    )


@pytest.mark.stress
@pytest.mark.parametrize("arguments", [["new-key"], ["--help"], []], ids=str)
def test_a_reader_that_has_gone_is_no_error(arguments):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as output, pipe(*arguments, stdout=output) as process:
        err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (0, b"")


@pytest.mark.stress
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["--help"], ["put", "t"]], ids=str)
def test_an_output_that_is_full_is_an_error_of_its_own_and_a_put_has_happened(queue, arguments):
    with FULL.open("wb") as output, pipe(*arguments, stdout=output) as process:
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert err.startswith(b"pywheel: the output cannot be written: No space left")
    assert err.count(b"\n") == 1
    assert ("t" in queue.topics.counts()) is ("put" in arguments)


@pytest.mark.stress
@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_no_harm(queue, closed):
    """A closed descriptor would be the store's: what is printed would land in its file."""
    command = f'"{sys.executable}" -m pywheel.cli put t 7 {closed}'
    result = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, timeout=60, check=False)
    assert result.returncode == (3 if ">&-" in closed.split() else 0)
    assert result.stderr == (b"pywheel: the output cannot be written: it is closed\n" if closed == ">&-" else b"")
    assert [job.json() for job in queue.jobs.list()] == [7]


class Broken(io.RawIOBase):
    """An input that ends in an error after a line."""

    def __init__(self):
        self._left = [b"1\n"]

    def readable(self):
        return True

    def readinto(self, buffer):
        if not self._left:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        buffer[:2] = self._left.pop()
        return 2


@pytest.mark.parametrize(("words", "then"), [("-", "\n"), ("--file -", "\n"), ("--lines", "; go on with line 1,")])
def test_an_input_that_cannot_be_read_is_not_taken_for_the_output(fails, queue, monkeypatch, words, then):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Broken())))
    err = fails(2, "put", "t", *words.split())
    assert err.startswith(f"pywheel: the input cannot be read: {os.strerror(errno.EIO)}{then}")
    assert queue.topics.counts() == {}


@pytest.mark.parametrize("words", ["-", "--file -"])
def test_a_closed_input_is_empty(call, queue, monkeypatch, words):
    monkeypatch.setattr(sys, "stdin", None)
    assert call("put", "t", *words.split()) == (0, "1\n", "")
    assert queue.get(1).body == b""


@pytest.mark.skipif(os.name == "nt", reason="a directory in use is not deleted there")
@pytest.mark.parametrize("command", ["work shop:queue --reload", "backup copy.db"])
def test_a_working_directory_that_was_deleted_is_said_and_not_taken_for_the_output(
    fails, queue, tmp_path, monkeypatch, command
):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert "the working directory was deleted" in fails(3, *command.split())


@pytest.mark.stress
def test_characters_that_the_encoding_lacks_are_written_with_a_backslash():
    result = run("-m", "pywheel.cli", "show", "\N{SNOWMAN}", PYTHONIOENCODING="ascii")
    assert result.returncode == 2
    assert result.stderr == "pywheel: '\\u2603' is not an id: give a number, or a key with --topic\n"
