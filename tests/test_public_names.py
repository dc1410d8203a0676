"""Every name that an annotated program needs can be imported: those in signatures, docstrings and pages."""

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

import pywheel
from tests.docs.pages import PAGES, prose, snippets
from tests.isolated.child import run_well

SOURCES = Path(pywheel.__file__).parent
ROOMS = ("pywheel.events", "pywheel.stores", "pywheel.testing", "pywheel.outlets", "pywheel.observe")
"""What is imported from a room of its own, as the pages say."""
GIVEN = {"AsyncJobs", "AsyncSchedules", "AsyncTask", "AsyncTopics", "Jobs", "Schedules", "Task", "Timer", "Topics"}
"""What a queue or a driver makes: nobody else calls the class."""
NOBODYS = {
    "AsyncDecorator": "what `@queue.task` is between the at and the function",
    "Decorator": "the same",
    "ClaimPolicy": "a handler's ttr and retry, as commands carry them",
    "Driven": "has private methods alone",
    "Former": "what a store keeps of a schedule that was changed",
    "Limits": "a handler's limit and rate, as its worker asks for them",
    "Program": "a queue, of either kind",
}
PUBLIC = [getattr(pywheel, name) for name in pywheel.__all__]


# ---- what the sources say: annotations by name, as aliases are lost in objects --------------------------------------


def file_of(module):
    """Return the file with a module's annotations; None if there is no such module."""
    path = SOURCES.joinpath(*module.split(".")[1:])
    files = path.with_suffix(".pyi"), path.with_suffix(".py"), path / "__init__.py"
    return next((file for file in files if file.exists()), None)


@functools.cache
def source(module):
    """Return the classes and aliases of a module, and where each name in it comes from."""
    file = file_of(module)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    package = (module if file.name == "__init__.py" else module.rpartition(".")[0]).split(".")
    found, origins = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *filter(None, [node.module])])
            origins |= {name.asname or name.name: (origin, name.name) for name in node.names}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            [target] = node.targets[:1] if isinstance(node, ast.Assign) else [node.target]
            found[ast.unparse(target)] = node
    return found, origins | {name: (module, name) for name in found}


def origin(module, name):
    """Return where a name is defined, behind what imports it; None if it is not ours."""
    while module.startswith("pywheel"):
        found, origins = source(module)
        if name in found or name not in origins:
            return (module, name) if name in found else None
        module, name = origins[name]
    return None


def names(module, annotation):
    """Yield where each of our names in an annotation is defined."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and (found := origin(module, node.id)):
            yield found
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):  # c.Put
            _, origins = source(module)
            room = ".".join(origins.get(node.value.id, ()))
            if room.startswith("pywheel") and file_of(room) and (found := origin(room, node.attr)):
                yield found


def annotations(module, name):
    """Yield (whose, annotation) of whatever a class says to those who use it."""
    node = source(module)[0][name]
    made = name not in GIVEN and name in pywheel.__all__
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and not part.target.id.startswith("_"):
            yield f"{name}.{part.target.id}", part.annotation
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not part.name.startswith("_") or (part.name == "__init__" and made)
        ):
            inner = part.args
            given = [*inner.posonlyargs, *inner.args, *inner.kwonlyargs, inner.vararg, inner.kwarg]
            found = [argument.annotation for argument in given if argument is not None] + [part.returns]
            yield from ((f"{name}.{part.name}", annotation) for annotation in found if annotation is not None)


def in_reach(module, name):
    if "._pure" in module:  # the twin of a native class
        return name in pywheel.__all__
    value = getattr(importlib.import_module(module), name, None)
    rooms = map(importlib.import_module, ("pywheel", *ROOMS))
    return any(getattr(room, name, None) is value and name in room.__all__ for room in rooms)


def walked():
    """Return whose annotations name what can not be imported."""
    waiting = [(it.__module__, it.__name__) for it in PUBLIC if inspect.isclass(it)]
    seen, missing = set(), {}
    while waiting:
        place = waiting.pop()
        if place in seen or not (place := origin(*place)) or place in seen:
            continue
        seen.add(place)
        module, name = place
        node = source(module)[0][name]
        if isinstance(node, ast.ClassDef):
            said = list(annotations(module, name))
            waiting += [(base.__module__, base.__name__) for base in mro(module, name)]
        else:  # an alias, or a type variable
            said = [(name, node.value)] if node.value is not None else []
        for whose, annotation in said:
            for found in names(module, annotation):
                nominal = isinstance(source(found[0])[0][found[1]], ast.ClassDef)
                if nominal and found[1] not in NOBODYS and not in_reach(*found):
                    missing.setdefault(".".join(found), set()).add(whose)
                elif found[1] not in NOBODYS and not found[0].startswith(ROOMS):
                    waiting.append(found)
    return missing


def mro(module, name):
    it = getattr(importlib.import_module(module), name, None)
    return [base for base in (it.__mro__[1:] if inspect.isclass(it) else ()) if base.__module__.startswith("pywheel")]


def test_what_a_public_signature_names_can_be_imported():
    assert walked() == {}


def docstrings():
    """Yield (whose, docstring) of the public classes and what they let others call."""
    for it in PUBLIC:
        if inspect.isclass(it) or inspect.isfunction(it):
            yield it.__name__, inspect.getdoc(it) or ""
            for name, member in inspect.getmembers(it) if inspect.isclass(it) else ():
                if not name.startswith("_") and callable(member):
                    yield f"{it.__name__}.{name}", inspect.getdoc(member) or ""


def test_what_a_docstring_names_can_be_imported():
    known = {name for room in ("pywheel", *ROOMS) for name in importlib.import_module(room).__all__}
    said = {name: whose for whose, text in docstrings() for name in re.findall(r"`([A-Z][a-z]+(?:[A-Z]\w*)?)\b", text)}
    assert {name: whose for name, whose in said.items() if name not in known} == {}


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_imports_and_names_is_there(page):
    python = [ast.parse(it.code) for it in snippets(page) if it.language in ("py", "python")]
    nodes = [node for tree in python for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    wanted = [(node.module, name.name) for node in nodes for name in node.names if node.module.startswith("pywheel")]
    wanted += [tuple(name.rsplit(".", 1)) for name in re.findall(r"`(pywheel(?:\.\w+)*\.[A-Z]\w*)", prose(page))]
    for room, name in wanted:
        if room != "pywheel.django":  # wants settings; tests/frameworks has it
            assert hasattr(importlib.import_module(room), name), (room, name)
            assert room != "pywheel" or name in pywheel.__all__


@pytest.mark.stress
def test_dir_and_a_star_give_every_public_name_before_it_was_asked_for():
    code = """
import pywheel
listed = set(dir(pywheel))
from pywheel import *
print(*set(pywheel.__all__) - (listed & set(globals())))
"""
    assert run_well("-c", code).split() == []


def test_all_that_is_imported_at_the_top_of_the_package_is_public():
    """Whatever it imports from its rooms, now or later, is in `__all__`."""
    _, origins = source("pywheel")
    ours = {name for name, (room, _) in origins.items() if room.startswith("pywheel.")}
    assert ours | {"__version__"} == set(pywheel.__all__)
