"""Every block of code on a page runs: here, by its language, or in the test that is named here."""

import fnmatch
import json
import operator
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import closing

import pytest

from pywheel import JobQueue
from pywheel.jobs.commands import Announce
from pywheel.server.tokens import Tokens
from pywheel.stores import open
from pywheel.testing import FaultyStore
from tests.deploy.tools import AMTOOL, DEPLOY, PROMTOOL, checked
from tests.docs.pages import PAGES, ROOT, blocks, prose, snippets, text
from tests.docs.typed import PROGRAMS
from tests.isolated.child import environment
from tests.server.client import Api, Process

SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]
COMING = "tests/docs/test_coming_from.py"
INLETS = "tests/inlets/test_docs.py"
CLIENTS = "tests/clients/test_clients.py"
PLUGIN = "tests/testing/test_plugin.py"
# (page, language): how many blocks, and which test runs them, or why none can.
ELSEWHERE = {
    **{(page, "py"): (1, "tests/docs/test_first_lines.py") for page in ("README.md", "docs/index.md", "docs/jobs.md")},
    ("docs/coming-from.md", "py"): (3, COMING),
    ("docs/coming-from.md", "toml"): (2, "tests/docs/test_commands.py"),
    ("docs/outlets-brokers.md", "toml"): (1, INLETS),
    ("docs/outlets.md", "toml"): (1, "tests/outlets/test_config.py"),
    ("docs/stores.md", "toml"): (1, "tests/stores/test_journal_example.py"),
    ("docs/stores.md", "text"): (1, "the form of an address"),
    ("docs/stores-redis.md", "text"): (1, "tests/stores/on_redis/test_server.py"),
    ("docs/jobs-inside.md", "text"): (1, "a drawing"),
    ("docs/operations.md", "bash"): (7, "tests/docs/test_backup.py"),
    ("docs/operations.md", "ini"): (2, "of a server's own configuration"),
    ("docs/core.md", "cython"): (1, "tests/packaging/test_cimport.py"),
    ("docs/production.md", "text"): (1, "a drawing"),
    ("docs/production.md", "ini"): (1, "of a server's own configuration"),
    ("docs/production.md", "bash"): (3, "nothing is built or applied where tests run; tests/packaging/test_deploy.py"),
    ("docs/scaling.md", "bash"): (1, "minutes of measuring; tests/stores/test_scaling_model.py runs the model"),
    ("docs/frameworks.md", "python"): (1, "tests/frameworks/test_docs.py"),
    ("docs/frameworks.md", "py"): (2, "tests/frameworks/test_docs.py"),
    ("docs/orders.md", "py"): (5, "tests/frameworks/test_docs.py"),
    ("docs/orders.md", "sh"): (1, "tests/frameworks/test_docs.py"),
    ("docs/testing.md", "py"): (1, PLUGIN),
    ("docs/outlets.md", "py"): (1, "tests/clients/test_signatures.py"),
    **{("docs/clients.md", language): (1, CLIENTS) for language in ("py", "js", "bash", "java")},
}
PAGE = operator.attrgetter("page")
RUN_HERE = {"python", "sh", "json", "yaml", "dockerfile", "console", "sql"}
SERVERS = {"postgresql": "postgres", "mysql": "mariadb", "redis": "redis", "amqp": "rabbitmq"}
ADDRESS = re.compile(rf"({'|'.join(SERVERS)})(?:\+cluster)?://[^\s\"')]*")
SHOP = """
from pywheel import JobQueue

queue = JobQueue("sqlite:///jobs.db")
queue.handler("shop.notify")(lambda job: None)
"""


def here(*languages):
    """Return what is run here of the blocks in these languages."""
    return [it for it in SNIPPETS if it.language in languages and (it.page, it.language) not in ELSEWHERE]


def asks_a_server(snippet):
    """Whether it opens an address of a server: in Python one that a queue is made with."""
    before = r"JobQueue\(\"" if snippet.language == "python" else ""
    return re.search(before + ADDRESS.pattern, snippet.code) is not None


def cases(found, name):
    """Return the blocks of each name together; those that ask a server are a case of their own, with its mark."""
    together = {}
    for it in found:
        together.setdefault((name(it), asks_a_server(it)), []).append(it)
    return [
        pytest.param(group, id=f"{of}{'-server' * asks}", marks=[pytest.mark.servers] * asks)
        for (of, asks), group in together.items()
    ]


@pytest.fixture
def address(request):
    """Return a function that gives the address of a server by its scheme, the same each time."""
    found = {}

    def of(scheme):
        if scheme not in found:
            found[scheme] = request.getfixturevalue(f"{SERVERS[scheme]}_server").url()
        return found[scheme]

    return of


# ---- every block -----------------------------------------------------------------------------------------------------


def test_code_stands_in_fences_that_name_its_language():
    for page in PAGES:
        fences = re.findall(r"^ *(?:```|~~~).*$", text(page), re.MULTILINE)
        assert len(fences) == 2 * len(snippets(page)), page
        assert re.findall(r"\n\n {4}.*", prose(page)) == [], page


def test_every_block_is_run_or_is_said_to_be_run_elsewhere():
    counted = {}
    for it in SNIPPETS:
        if it.language not in RUN_HERE or (it.page, it.language) in ELSEWHERE:
            counted[it.page, it.language] = counted.get((it.page, it.language), 0) + 1
    assert counted == {place: count for place, (count, _) in ELSEWHERE.items()}


def test_what_is_said_to_run_elsewhere_is_read_there():
    for (page, _), (_, where) in ELSEWHERE.items():
        if where.startswith("tests/"):
            names = re.findall(r"[\w*-]+\.md", (ROOT / where).read_text(encoding="utf-8"))
            assert any(fnmatch.fnmatch(page.rpartition("/")[2], name) for name in names), (page, where)


# ---- Python ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", cases(here("python"), str))
def test_python_runs_any_number_of_times(found, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [it] = found
    code = ADDRESS.sub(lambda match: address(match[1]), it.code) if asks_a_server(it) else it.code
    source = "\n" * (it.line - 1) + code  # so that a failure names the line of the page
    for _ in range(2):  # in the same folder
        names = {"__name__": "example"}
        exec(compile(source, str(ROOT / it.page), "exec", dont_inherit=True), names)
        for value in names.values():
            if isinstance(value, JobQueue):
                value.close()


# ---- the shell: the blocks of a page are typed one after the other, in one folder ------------------------------------


def eleven_jobs(folder, _):
    """The page's first put is job 12."""
    with JobQueue(f"sqlite:///{folder}/jobs.db") as queue:
        queue.put_many(queue.job("shop.notify", delay="1h") for _ in range(11))


def two_stores(folder, address):
    eleven_jobs(folder, address)
    with JobQueue(address("redis")) as queue:
        queue.put("t")


def a_token(folder, _):
    with JobQueue(f"sqlite:///{folder}/jobs.db") as queue:
        return {"5f0c3b9a7d21": Tokens(queue.store).add(["read"]).split("_")[1]}


def refused_puts(folder, _):
    """The fifth put into the spool was refused, and the sixth."""
    store, spool = f"sqlite:///{folder}/shop.db", f"sqlite:///{folder}/spool.db"
    with JobQueue(store) as queue:
        queue.put_many(queue.job("t", key=key) for key in "ab")
    with FaultyStore(open(store)) as away, JobQueue(away, spool=spool) as queue:
        away.away = True
        for key in [None] * 4 + ["a", "b"]:
            queue.put("t", key=key)
    drain = [sys.executable, "-m", "pywheel.cli", "spool", "drain", "--store", store]
    assert subprocess.run(drain, cwd=folder, check=False).returncode == 1


PREPARED = {
    "docs/alarms.md": eleven_jobs,
    "docs/command-line.md": eleven_jobs,
    "docs/tokens.md": a_token,
    "docs/spool.md": refused_puts,
    "docs/operations.md": two_stores,
}


@pytest.fixture
def shell(tmp_path):
    """Return a function that types lines in a folder of its own, with a program's queue in it; it returns what came."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.docs.typed {name} "$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(SHOP)
    (tmp_path / "outlets.toml").write_text(blocks("docs/coming-from.md", "toml")[1])
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    variables = environment(PATH=path, no_proxy="*", PYWHEEL_BROKER="amqp://localhost")

    def typed(code, **more):
        done = subprocess.run(
            ["sh", "-ec", code], cwd=tmp_path, env={**variables, **more}, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        return done.stdout

    return typed


@pytest.mark.stress
@pytest.mark.parametrize("found", cases([it for it in here("sh") if "curl" not in it.code], PAGE))
def test_the_shell_does_what_the_page_types(found, shell, address, tmp_path):
    replaced = PREPARED.get(found[0].page, lambda *_: None)(tmp_path, address) or {}
    for it in found:
        code = ADDRESS.sub(lambda match: shlex.quote(address(match[1])), it.code)
        for old, new in replaced.items():
            code = code.replace(old, new)
        shell(code)


# ---- the service -----------------------------------------------------------------------------------------------------

CURL = "curl -s -w '\\n%{http_code}'"
ANSWERS = re.compile(r"answers (\d{3}) with `(\{.*?\})`")


@pytest.mark.stress
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("found", cases([it for it in here("sh") if "curl" in it.code], PAGE))
def test_the_service_answers_what_the_page_asks_and_as_it_says(found, shell, tmp_path):
    server = Process(tmp_path, "--open")
    try:
        for it in found:
            for command in re.split(r"\n(?=curl)", it.code.strip()):
                said, status = asked(command, server, shell)
                assert 200 <= status < 300, (command, status, said)
            if shown := ANSWERS.match(it.after):
                assert (status, json.loads(said)) == (int(shown[1]), json.loads(shown[2]))
    finally:
        assert server.stop() == 0


@pytest.mark.stress
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_token_of_the_page_may_do_its_examples_except_those_that_the_page_names(shell, tmp_path):
    [_, adding, *examples] = blocks("docs/server.md", "sh")
    [scopes] = re.findall(r"token add --scope (\S+)$", adding, re.MULTILINE)
    with JobQueue(f"sqlite:///{tmp_path}/jobs.db") as queue:
        token = Tokens(queue.store).add(scopes.split(","))
    server, refused = Process(tmp_path), []
    try:
        for command in re.split(r"\n(?=curl)", "\n".join(map(str.strip, examples))):
            _, status = asked(command, server, shell, {"authorization": f"Bearer {token}"})
            assert status == 403 or 200 <= status < 300, (command, status)
            refused += re.findall(r"localhost:8080/v1(\S+)", command) if status == 403 else []
    finally:
        assert server.stop() == 0
    orders = [f"/workers/$WORKER/{word}" for word in ("quiet", "resume", "stop")]
    topic = [f"/topics/mail/{what}" for what in ("pause", "resume", "limits", "limits")]
    assert refused == ["/jobs/1", "/jobs/retry", *topic, *orders]


def asked(command, server, shell, headers=None):
    """Return what a command got, and the status."""
    variables = {}
    for name, value in (headers or {}).items():
        command = re.sub(r"^curl -sN?", rf"\g<0> -H '{name}: {value}'", command)
    if "$RECEIPT" in command:
        server("POST", "/v1/jobs", json={"topic": "of its own"}, headers=headers)
        answer = server("POST", "/v1/reserve", json={"topics": ["of its own"]}, headers=headers)
        variables["RECEIPT"] = answer.json()["jobs"][0]["receipt"]
    if "nightly" in command:
        with JobQueue(server.store) as queue:
            queue.schedules.set("nightly", "report", every="1d")
    line = command.replace("localhost:8080", f"localhost:{server.port}")
    if line.startswith("curl -sN"):  # a stream has no end
        head = shell(line.replace("curl -sN", "curl -sN --max-time 1 -D -", 1) + " || [ $? = 28 ]")
        return "", int(head.split()[1])
    with JobQueue(server.store) as queue, closing(queue.store.notifier("app1:4711")) as ear:
        queue.store.apply([Announce(ear.worker, ("mail",) if "$WORKER" in command else ())])
        line = line.replace("curl -s", CURL, 1)
        said, _, status = shell(line, **variables, WORKER=ear.worker).rpartition("\n")
    return said, int(status)


@pytest.mark.parametrize("it", here("json"), ids=str)
def test_a_problem_looks_as_the_page_shows(it):
    jobs = [{"topic": "mail"}] * 3 + [{"topic": 3}]
    with JobQueue("memory:") as queue, closing(Api(queue)) as api:
        shown, said = json.loads(it.code), api("POST", "/v1/jobs/batch", json={"jobs": jobs}).json()
    assert {name: said[name] for name in shown} == shown


# ---- what others read ------------------------------------------------------------------------------------------------


@pytest.mark.stress
@pytest.mark.parametrize("it", here("yaml"), ids=str)
def test_prometheus_and_alertmanager_take_their_settings(it, tmp_path):
    tool, check = {
        "# prometheus.yml": (PROMTOOL, ["check", "config"]),
        "# alertmanager.yml": (AMTOOL, ["check-config"]),
    }[it.code.partition("\n")[0]]
    shutil.copy(DEPLOY / "prometheus" / "pywheel.rules.yml", tmp_path)
    (tmp_path / "settings.yml").write_text(it.code)
    checked(tool, *check, str(tmp_path / "settings.yml"))


@pytest.mark.stress
@pytest.mark.parametrize("it", here("dockerfile"), ids=str)
def test_an_image_runs_a_command_that_is_there(it, shell):
    [command] = re.findall(r"^CMD (\[.*\])$", it.code, re.MULTILINE)
    shell(shlex.join(["pywheel", *json.loads(command)]))


@pytest.mark.stress
@pytest.mark.parametrize("it", here("console"), ids=str)
def test_a_table_has_the_columns_that_the_page_shows(it, shell, tmp_path):
    JobQueue(f"sqlite:///{tmp_path}/shop.db").close()
    command, header, *_ = it.code.splitlines()
    assert shell(command.removeprefix("$ ")).split() == header.split()


# ---- SQL -------------------------------------------------------------------------------------------------------------


def in_postgres(code, server):
    name = f"r{os.urandom(4).hex()}"
    with JobQueue(server.url(schema=name)), server.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        for statement in re.sub(r"\b(jobs|shop)\b", name, code).strip().split("\n"):
            connection.execute(statement)


def in_mariadb(code, server):
    url = server.url()
    database = re.search(r"/(db\d+)", url)[1]
    with JobQueue(url), server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {database}")
        cursor.execute(re.sub(r"\bshop\b", database, code).replace("sleep(30)", "sleep(0)").replace("...", "'w'"))


DATABASES = {"docs/stores-postgres.md": ("postgres", in_postgres), "docs/stores-mysql.md": ("mariadb", in_mariadb)}


@pytest.mark.servers
@pytest.mark.parametrize("it", here("sql"), ids=str)
def test_a_database_takes_its_statements(it, request):
    server, run = DATABASES[it.page]
    run(it.code, request.getfixturevalue(f"{server}_server"))
