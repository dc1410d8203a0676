"""Each refusal of a command names the right way to write it."""

import itertools
import re
import shlex
import socket
import sys

import pytest
from typer.main import get_command

from pywheel import ExtraMissing
from pywheel.cli.app import PARTS, application
from pywheel.jobs.checks import needed
from pywheel.jobs.queries import ListNotes
from pywheel.server.tokens import Tokens

NO_ZONE = "'2030-01-31T06:00:00' has no time zone: write it like 2030-01-31T12:00:00+01:00"
NUMBERS = itertools.count()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("put", "Missing argument 'topic': `pywheel put --help` says more"),
        ("token remove --bogus", "No such option: --bogus: `pywheel token remove --help` says more"),
        ("lst", "Did you mean 'list'?"),
        ("--store sqlite:///x.db counts", "No such option: --store: it follows the command: pywheel put --store"),
        ("--sotre sqlite:///x.db counts", "No such option: --sotre: `pywheel --help` says more"),
        ("list --state ded", "Invalid value for '--state': 'ded' is not one of 'delayed'"),
        ("put t 1 --at 2030-01-31T06:00:00", NO_ZONE),
        ("list --due-from 2030-01-31T06:00:00", NO_ZONE),
        ("list --due-until tomorrow", "or a time like 2030-01-31T12:00:00+01:00"),
        ("put notify 1 -H tenant", "--header is name=value, not 'tenant'"),
        ("rekey", "give --keys-file, or set PYWHEEL_KEYS; `pywheel new-key` makes a key"),
        ("deliver --config nowhere.toml", "`pywheel deliver --help` shows one"),
        ("limit notify --limit 0", "limit must be a whole number from 1"),
        ("limit notify --per :", "--per says of which group --limit is: give both"),
        ("limit notify --rate soon", "rate must be text such as '100/m'"),
        ("limit notify --limit 1 --none", "give --limit and --rate, or --none, or --as-code"),
        ("limit notify --none --as-code", "give --limit and --rate, or --none, or --as-code"),
        ("serve --open --host 0.0.0.0", "--open is for this host only"),
        ("serve --work", "name it"),
        ("serve --cors shop.example", "origins such as"),
        ("serve --cors https://shop.example/", "origins such as"),
        ("serve --host 203.0.113.1 --port 0", "cannot be listened to"),
        ("serve --open --port {taken}", "127.0.0.1:{taken} cannot be listened to"),
        ("serve nowhere:queue", "there is no module nowhere"),
        ("serve --sign-in-header X-User", "sign-in"),
        ("serve --sign-in-from 10.0.0.1", "sign-in"),
        ("serve --open --sign-in-header X-User --sign-in-from 10.0.0.1", "sign-in"),
        ("serve --sign-in-header X-User --sign-in-from everywhere", "trusted"),
        ("bridge rabbitmq q --topic t --broker http://guest:secret@x", "is written like amqp:"),
        ("bridge rabbitmq q", "--topic"),
        ("bridge kafka t --topic '' --servers x", "a topic must have 1 to"),
        ("work no.such:queue --metrics-port 70000", "65535"),
        ("token add", "--scope"),
        ("token add --scope ''", "--scope"),
        ("token add --scope read --role admin", "--role"),
        ("token add --scope wrok", "did you mean work"),
        ("token add --role vewer", "did you mean viewer"),
        ("token add --scope read --until tomorrow", "or a time like 2030-01-31T12:00:00+01:00"),
        ("token add --scope read --until 2001-01-01", "has passed"),
        ("token add --scope read --until 2100-01-01T00:00:00", "time zone"),
        ("token add --scope read --until 2100-13-01", "not a time"),
        (f"token add --scope read --note {'n' * 201}", "200"),
        ("token remove", "--note"),
        ("token remove --note ''", "--note is empty"),
        ("token remove 000000000000 --note n", "--note"),
        ("token remove 'shop backend'", "not an id of a token"),
    ],
)
def test_a_refusal_says_what_to_write_and_changes_nothing(call, queue, monkeypatch, arguments, said):
    monkeypatch.delenv("PYWHEEL_KEYS", raising=False)
    queue.put("notify")
    Tokens(queue.store).add("read")
    notes = queue.store.ask(ListNotes(""))
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        code, out, err = call(*shlex.split(arguments.format(taken=taken)))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said.format(taken=taken) in err
    assert "secret" not in err
    assert queue.store.ask(ListNotes("")) == notes != []
    assert [job.topic for job in queue.jobs.list()] == ["notify"]


def test_nothing_given_shows_the_help(call):
    code, out, _ = call()
    assert code == 2
    for said in ("\nOne job:\n", "\nAt work:\n", "pywheel work shop:queue", "Exit codes"):
        assert said in out


@pytest.mark.parametrize("group", [[], ["token"], ["schedules"], ["outlets"], ["bridge"], ["spool"]], ids=str)
def test_help_cuts_off_no_sentence(call, group):
    code, out, _ = call(*group, "--help")
    assert code == 0
    assert "..." not in out.replace("[ARGS]...", "")


def commands(group, *names):
    for name, command in group.commands.items():
        yield from commands(command, *names, name) if hasattr(command, "commands") else [((*names, name), command)]


@pytest.mark.parametrize(
    ("names", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands(get_command(application()))]
)
def test_the_help_of_every_command_shows_how_it_is_written(names, command):
    lines = re.findall(
        rf"^  (?:\w.* \| |[A-Z_]+=\S+ )?pywheel {' '.join(names)}\b(.*)", command.epilog or "", re.MULTILINE
    )
    assert lines
    known = {option for parameter in command.params for option in parameter.opts}
    written = {
        option for line in lines for option in re.findall(r" (-{1,2}[a-z][\w-]*)", re.split(r" [#|&>] | #", line)[0])
    }
    assert written <= known


def test_every_command_is_listed_once_under_a_heading():
    names = [name for part in PARTS.values() for name in part]
    assert sorted(names) == sorted(get_command(application()).commands)


def test_a_command_is_imported_alone_and_all_are_where_none_is_called():
    assert [command.name for command in application("put").registered_commands] == ["put"]
    assert [group.typer_instance.info.name for group in application("spool").registered_groups] == ["spool"]
    assert set(get_command(application("putt")).commands) == set(get_command(application()).commands)


def test_what_is_not_there_is_named_as_it_was_asked_for(call, queue, tmp_path):
    code, _, err = call("spool", "show", "--spool", f"sqlite:///{tmp_path}/spool.db")
    assert (code, err) == (3, f"pywheel: there is no spool at {tmp_path}/spool.db: --spool says where it is\n")
    queue.put("mail", 1)
    assert call("show", "order-7", "--topic", "mail")[2] == "pywheel: there is no job 'order-7' of topic 'mail'\n"
    assert call("show", "77")[2] == "pywheel: there is no job 77\n"


@pytest.fixture
def refused(call, tmp_path, monkeypatch):
    """Run a command with a program that does not work; return what it says."""

    def refused(command, source, line):
        name = f"broken_shop_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        code, out, err = call(command, f"{name}:queue")
        assert (code, out) == (2, "")
        assert f'{name}.py", line {line}' in err
        assert "src/pywheel" not in err  # its own lines, and none of ours
        return err.splitlines()[-1].replace(name, "shop")

    return refused


@pytest.mark.parametrize("command", ["work", "serve"])
def test_a_program_that_does_not_work_shows_its_own_lines(refused, command):
    for line in ("import nothing_is_called_so", "1 +"):
        assert refused(command, f"x = 1\n{line}\n", 2).startswith("pywheel: shop cannot be imported: ")
    source = "from pywheel import JobQueue\ndef place():\n    raise KeyError('SHOP')\n"
    source += "queue = JobQueue(place)\nqueue.handler('t')(print)\n"
    said = refused(command, source, 3)
    assert said == "pywheel: the program does not say where its store is: KeyError: 'SHOP'"


@pytest.mark.parametrize("command", ["work", "serve"])
def test_a_program_that_ends_itself_during_its_import_is_told(refused, command):
    said = refused(command, "import sys\nsys.exit(0)\n", 2)
    assert said == "pywheel: shop cannot be imported: the program ended itself: sys.exit(0)"


def test_a_package_that_is_missing_has_its_own_name_and_that_of_its_extra():
    with pytest.raises(ExtraMissing, match=r"^nothing_like_it is not installed: pip install 'pywheel-timer\[x\]'$"):
        needed("nothing_like_it.inside", "x")


def test_a_package_that_misses_another_one_says_which(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import nothing_like_it\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ExtraMissing, match=r"^needs_another cannot be imported \(No module named 'nothing_like_it'\): "
    ):
        needed("needs_another", "x")
