"""The allowed imports between the packages, checked in the sources: every other arrow is an error."""

import ast
import sys
from pathlib import Path

import pytest

import pywheel
from tests.isolated.child import run_well

PACKAGE = Path(pywheel.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.pyi"))

# layer: the layers it may import, beside itself. The top of the package may use any.
EVERYBODY = {"_errors", "_forks", "_later", "_seconds", "clock", "events"}
MAY_IMPORT = {
    "_errors": set(),
    "_forks": set(),
    "_later": set(),
    "_seconds": set(),
    "clock": set(),
    "events": {"jobs"},
    "core": set(),
    "timers": {"core"},
    "jobs": set(),
    "tasks": {"jobs"},
    "stores": {"jobs"},
    "client": {"stores", "tasks", "jobs", "observe"},  # a queue logs unless told otherwise
    "execution": {"stores", "jobs"},
    "worker": {"execution", "stores", "tasks", "jobs", "core", "observe"},  # isolated handlers log as they were told to
    "processes": {"worker", "execution", "stores", "jobs", "observe"},  # they log, and expose metrics
    "observe": {"jobs"},
    "outlets": {"jobs"},
    "django": {"cli", "client", "stores", "jobs"},
    "inlets": {"client", "outlets", "jobs"},
    "server": {"client", "worker", "stores", "jobs", "observe"},
    "cli": {*"server inlets outlets client processes worker execution stores jobs observe __init__".split()},
    "testing": {"client", "tasks", "worker", "execution", "stores", "jobs"},
}
# The rooms of stores on servers, and the drivers that they use. They are imported when such a store is opened.
DRIVERS = {
    "pywheel.stores.postgres": {"psycopg", "psycopg_pool"},
    "pywheel.stores.mysql": {"pymysql", "MySQLdb"},
    "pywheel.stores.redis": {"redis", "hiredis"},
}
NO_THIRD_PARTY = {
    *EVERYBODY,
    *"core timers jobs tasks stores client execution worker processes observe testing __init__".split(),
}


def layer_of(module):
    """Return the layer of a dotted name below pywheel: the first part, `__init__` for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def module_name(file):
    parts = ["pywheel", *file.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def absolute(node, package):
    """Return the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    module = ".".join([*base, *([node.module] if node.module else [])])
    if module == "pywheel":  # `from pywheel import core` names a layer
        return [
            f"pywheel.{alias.name}"
            if (PACKAGE / alias.name).exists() or (PACKAGE / f"{alias.name}.py").exists()
            else "pywheel"
            for alias in node.names
        ]
    return [module]


def room_of(module):
    """Return the room of a store's server that a module is in, or None."""
    return next((room for room in DRIVERS if f"{module}.".startswith(f"{room}.")), None)


def is_for_typing(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(source, package):
    """Yield (module, at run time at module level) of every import."""

    def walk(node, *, at_import):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for module in absolute(node, package):
                yield module, at_import
            return
        deferred = is_for_typing(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # an import is in no expression
                yield from walk(child, at_import=at_import and not deferred)

    yield from walk(ast.parse(source), at_import=True)


def wrong_arrows(name, source, *, is_package=False, typing_only=False):
    """Return what the module imports and may not."""
    package = name if is_package else name.rpartition(".")[0]
    layer, room = layer_of(name), room_of(name)
    wrong = []
    for module, at_import in imports(source, package):
        top = module.partition(".")[0]
        if top == "pywheel":
            target = layer_of(module)
            if layer != "__init__" and target != layer and target not in MAY_IMPORT.get(layer, set()) | EVERYBODY:
                wrong.append(module)
            elif room_of(module) not in (None, room) and at_import and not typing_only:
                wrong.append(module)  # its driver may not be there
        elif top in DRIVERS.get(room, ()):
            continue
        elif top not in sys.stdlib_module_names and layer in NO_THIRD_PARTY and at_import and not typing_only:
            wrong.append(module)
    return wrong


@pytest.mark.parametrize("layer", sorted({layer_of(module_name(file)) for file in FILES}))
def test_modules_import_only_what_their_layer_may(layer):
    wrong = {}
    for file in FILES:
        name = module_name(file)
        if layer_of(name) == layer:
            kinds = {"is_package": file.stem == "__init__", "typing_only": file.suffix == ".pyi"}
            wrong[name] = wrong_arrows(name, file.read_text(encoding="utf-8"), **kinds)
    assert {name: arrows for name, arrows in wrong.items() if arrows} == {}


def test_every_layer_in_the_house_is_known():
    layers = {layer_of(module_name(file)) for file in FILES}
    assert layers - {"__init__"} <= set(MAY_IMPORT)
    assert {"core", "_errors"} <= layers


@pytest.mark.parametrize(
    ("name", "source", "wrong"),
    [
        ("pywheel.core._pure", "from pywheel.timers import Timers", ["pywheel.timers"]),
        ("pywheel.core._pure", "from ..timers.thread import ThreadTimers", ["pywheel.timers.thread"]),
        ("pywheel.core._pure", "def f():\n    import pywheel.jobs", ["pywheel.jobs"]),
        ("pywheel.core._pure", "import pywheel", ["pywheel"]),
        ("pywheel.core._pure", "from .. import timers", ["pywheel.timers"]),
        ("pywheel.core._pure", "try:\n    import numpy as np\nexcept ImportError:\n    pass", ["numpy"]),
        ("pywheel.core._pure", "def f():\n    import numpy", []),
        ("pywheel.core._pure", "if TYPE_CHECKING:\n    import numpy", []),
        ("pywheel.core._pure", "import heapq\nfrom pywheel._errors import WheelFull\nfrom . import _arguments", []),
        ("pywheel._errors", "from pywheel.core import TimingWheel", ["pywheel.core"]),
        ("pywheel.stores.sqlite", "from pywheel.jobs import Job\nfrom ..clock import Clock", []),
        ("pywheel.worker.executors.pool", "import rich", ["rich"]),
        ("pywheel.stores.postgres.store", "import psycopg\nfrom psycopg.rows import tuple_row", []),
        ("pywheel.stores.postgres.store", "import pymysql", ["pymysql"]),
        ("pywheel.stores.relational.session", "import psycopg", ["psycopg"]),
        ("pywheel.stores.open", "from .postgres.store import PostgresStore", ["pywheel.stores.postgres.store"]),
        ("pywheel.stores.open", "def f():\n    from .postgres.store import PostgresStore", []),
        ("pywheel.stores.redis.store", "from .commands import RedisCommands", []),
        ("pywheel.stores.redis.store", "from ..postgres.ids import new", ["pywheel.stores.postgres.ids"]),
    ],
)
def test_a_forbidden_arrow_is_found(name, source, wrong):
    assert wrong_arrows(name, source) == wrong


@pytest.mark.stress
def test_the_package_imports_nothing_but_the_standard_library_and_nothing_that_is_slow_to_load():
    """What the sources cannot say: what importing it really loads. A build's own helpers do not count."""
    code = "import sys; before = set(sys.modules); import pywheel; print(*sorted(set(sys.modules) - before))"
    modules = set(run_well("-c", code).split())
    loaded = {name.partition(".")[0] for name in modules}
    private = ("_cython_", "cython_runtime", "_sysconfigdata", "_xxsubinterpreters")
    helpers = {name for name in loaded if name.startswith(private)}
    assert loaded - helpers - set(sys.stdlib_module_names) == {"pywheel"}
    assert modules & set(SLOW) == set()


# Each takes long to load, and none is needed until somebody asks for what uses it.
SLOW = """
asyncio sqlite3 json numpy logging traceback tempfile subprocess multiprocessing socket selectors ssl email http urllib
inspect dataclasses decimal fractions dis ast pathlib uuid hashlib pickle concurrent.futures importlib.metadata argparse
""".split()


@pytest.mark.stress
@pytest.mark.parametrize(
    ("modules", "not_before_somebody_asks"),
    [
        (
            "stores, pywheel.client, pywheel.worker, pywheel.testing",
            {"cryptography", "msgspec"}.union(*DRIVERS.values()),
        ),
        (
            "observe.prometheus, pywheel.observe.opentelemetry, pywheel.server.metrics",
            {"prometheus_client", "opentelemetry"},
        ),
        ("cli.app; pywheel.cli.app.application('put')", {"rich", "pydantic"}),
        ("cli.app; pywheel.cli.app.application()", {"starlette", "granian", "msgspec", "jinja2", "uvloop"}),
    ],
)
def test_what_others_made_is_not_imported_before_somebody_asks_for_it(modules, not_before_somebody_asks):
    loaded = run_well("-c", f"import sys, pywheel.{modules}; print(*sorted(sys.modules))").split()
    assert {name.partition(".")[0] for name in loaded} & not_before_somebody_asks == set()


@pytest.mark.stress
@pytest.mark.parametrize("module", ["tests.stores.servers", "tests.clients.tools"])
def test_what_the_tests_need_of_a_machine_is_asked_by_a_python_that_has_no_packages(module):
    run_well("-S", "-m", module)
