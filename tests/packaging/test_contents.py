"""The contents of the distributions."""

import email
import re
import tarfile
import zipfile
from pathlib import PurePosixPath

import pytest

from tests.packaging.tools import PROJECT, ROOT, python, run

pytestmark = pytest.mark.packaging

COMPILED = {".so", ".pyd", ".c", ".o", ".pyc"}
NATIVE = ROOT / "src" / "wheel"
HEADERS = {path.relative_to(NATIVE).as_posix() for path in NATIVE.rglob("*.pxd")}
SOURCES = ROOT / "src" / "pywheel"
STATEMENTS = {p.relative_to(ROOT / "src").as_posix() for p in SOURCES.rglob("*") if p.suffix in {".sql", ".lua"}}
PAGE = SOURCES / "server" / "page"
PAGE_FILES = {
    path.relative_to(ROOT / "src").as_posix()
    for path in [*PAGE.glob("static/*"), *PAGE.glob("templates/*.html"), *SOURCES.glob("django/templates/**/*.html")]
}
MODULES = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "pywheel").rglob("*.py")}


def test_the_extra_all_is_all_the_others():
    extras = dict(PROJECT["project"]["optional-dependencies"])
    [named] = extras.pop("all")
    assert named == f"pywheel-timer[{','.join(sorted(extras))}]"


def names(archive):
    """Names of the files in a wheel, or below the one folder of an sdist."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as content:
            return set(content.namelist())
    with tarfile.open(archive) as content:
        paths = [PurePosixPath(member.name) for member in content if member.isfile()]
    assert len({path.parts[0] for path in paths}) == 1
    return {PurePosixPath(*path.parts[1:]).as_posix() for path in paths}


def about(wheel, name):
    """Return a file of a wheel's `.dist-info`."""
    with zipfile.ZipFile(wheel) as content:
        [path] = [path for path in content.namelist() if path.endswith(f".dist-info/{name}")]
        return content.read(path).decode()


def description(wheel):
    """Return what PyPI shows: the body of a wheel's metadata."""
    text = about(wheel, "METADATA")
    assert "Description-Content-Type: text/markdown\n" in text.partition("\n\n")[0]
    return text.partition("\n\n")[2]


def suffixes(found):
    return {PurePosixPath(name).suffix for name in found}


@pytest.fixture(params=["wheel", "pure_wheel"])
def any_wheel(request):
    return request.getfixturevalue(request.param)


def test_a_wheel_has_every_module_header_statement_and_file_of_the_pages_and_no_sources_to_compile(any_wheel):
    found, version = names(any_wheel), any_wheel.name.split("-")[1]
    assert {name.split("/")[0] for name in found} == {"pywheel", f"pywheel_timer-{version}.dist-info"}
    assert {name for name in found if name.endswith(".py")} == MODULES
    assert {name for name in found if name.endswith((".sql", ".lua"))} == STATEMENTS
    assert len(STATEMENTS) > 5
    assert {name for name in found if "/page/static/" in name or "/templates/" in name} == PAGE_FILES
    assert {name for name in found if name.endswith(".pxd")} == HEADERS
    assert {"pywheel/core/levels.pxd", "pywheel/core/_wheel.pxd", "pywheel/timers/clock.pxd"} <= HEADERS
    assert {"pywheel/py.typed", "pywheel/core/_wheel.pyi", "pywheel/server/page/static/htmx.LICENSE"} <= found
    assert not suffixes(found) & {".c", ".pyx", ".o"}


def test_a_wheel_brings_the_command(any_wheel):
    assert "pywheel = pywheel.cli:main" in about(any_wheel, "entry_points.txt")


def test_the_native_core_uses_nothing_of_the_timers(wheel):
    """Neither the headers, which others compile, nor the module's own sources, which are not in the wheel."""
    with zipfile.ZipFile(wheel) as content:
        core = [name for name in content.namelist() if name.startswith("pywheel/core/") and name.endswith(".pxd")]
        sources = [content.read(name).decode() for name in core]
    sources += [path.read_text(encoding="utf-8") for path in (NATIVE / "pywheel" / "core").glob("*.pyx")]
    uses = re.compile(r"^ *(?:from|c?import) (pywheel\.\w+)", re.MULTILINE)
    assert {layer for source in sources for layer in uses.findall(source)} == {"pywheel.core", "pywheel._errors"}


def test_the_wheel_has_every_extension(wheel):
    compiled = [name for name in names(wheel) if PurePosixPath(name).suffix in {".so", ".pyd"}]
    modules = {name.partition(".")[0] for name in compiled}
    timers = {f"pywheel/timers/{name}" for name in ("_timers", "_loop", "_timeout")}
    assert modules == {"pywheel/core/_wheel", *timers}
    assert len(compiled) == len(modules)
    assert "none-any" not in wheel.name


def test_the_pure_wheel_has_none_and_suits_every_platform(pure_wheel):
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert not suffixes(names(pure_wheel)) & COMPILED


def test_the_sdist_has_the_native_sources_and_the_build(sdist):
    native = {path.relative_to(ROOT).as_posix() for path in NATIVE.rglob("*") if path.is_file()}
    assert {"src/wheel/pywheel/core/levels.pxd", "src/wheel/pywheel/timers/_timers.pyx"} <= native
    assert native <= names(sdist)
    assert {"setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"} <= names(sdist)
    assert {f"src/{name}" for name in MODULES | STATEMENTS} <= names(sdist)


def test_cython_translates_each_module_where_it_lies_and_needs_no_options(tmp_path):
    modules = sorted((NATIVE / "pywheel").rglob("*.pyx"))
    assert [module.stem for module in modules] == ["_wheel", "_loop", "_timeout", "_timers"]
    run([*python("-m", "cython"), "-3", *modules, "-o", tmp_path])
    for module in modules:
        name = ".".join(module.relative_to(NATIVE).with_suffix("").parts)
        assert f'"{name}"' in (tmp_path / f"{module.stem}.c").read_text(encoding="utf-8")


def test_the_sdist_has_the_tests_that_check_a_wheel(sdist):
    found = names(sdist)
    assert {"tests/conftest.py", "tests/core/test_vectors.py", "tests/vectors/README.md"} <= found
    assert not [name for name in found if name.startswith("tests/vectors-peers/")]


def test_the_sdist_has_nothing_compiled(sdist):
    assert not suffixes(names(sdist)) & COMPILED


def test_the_index_accepts_the_descriptions(sdist, wheel, pure_wheel):
    output = run([*python("-m", "twine"), "check", "--strict", sdist, wheel, pure_wheel])
    assert output.count("PASSED") == 3


def test_the_metadata_says_what_it_needs(any_wheel):
    metadata = email.message_from_string(about(any_wheel, "METADATA"))
    assert metadata["Name"] == "pywheel-timer"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert all("extra ==" in requirement for requirement in metadata.get_all("Requires-Dist"))


def test_the_page_on_pypi_leads_to_this_version_and_shows_its_pictures(any_wheel):
    version = any_wheel.name.split("-")[1]
    home = PROJECT["project"]["urls"]["Homepage"]
    text = re.sub(r"^```.*?^```$", "", description(any_wheel), flags=re.DOTALL | re.MULTILINE)
    pictures, links = re.findall(r"!\[[^]]*\]\((\S+?)\)", text), re.findall(r"(?<!!)\[[^]]*\]\((\S+?)\)", text)
    assert len(pictures) >= 1
    assert len(links) >= 30
    raw = home.replace("//github.com/", "//raw.githubusercontent.com/")
    paths = [target.removeprefix(f"{raw}/v{version}/") for target in pictures]
    paths += [target.removeprefix(f"{home}/blob/v{version}/").partition("#")[0] for target in links]
    assert [path for path in paths if not path or not (ROOT / path).exists()] == []
    assert [target for target in pictures + links if not target.startswith("https://")] == []
