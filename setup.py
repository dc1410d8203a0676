"""Build the extensions from src/wheel, and the README for PyPI; everything static stands in pyproject.toml.

PYWHEEL_PURE=1            no extension, a py3-none-any wheel
PYWHEEL_REQUIRE_NATIVE=1  a failed build is an error (so it is under cibuildwheel); otherwise a warning
PYWHEEL_SANITIZE=names    for gcc and clang, such as address,undefined
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

CORE, TIMERS = "pywheel.core", "pywheel.timers"
WHEEL = f"{CORE}._wheel"
MODULES = (WHEEL, *(f"{TIMERS}.{name}" for name in ("_timers", "_loop", "_timeout")))
ROOT = Path(__file__).resolve().parent
SOURCES = Path("src", "wheel")  # laid out as the package is: so Cython finds each part by its name

DIRECTIVES = {
    "language_level": "3",
    "autotestdict": False,
    "binding": False,
    "boundscheck": False,
    "cdivision": True,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "freethreading_compatible": True,
    "initializedcheck": False,
    "wraparound": False,
}

FAILED = """
{line}
pywheel: the native modules were NOT built: {reason}
The install goes on with the pure Python twin: the same results, many times slower.
To mend it, install a C compiler and the headers of Python, and install pywheel again:
    pip install --no-cache-dir --force-reinstall pywheel-timer
PYWHEEL_REQUIRE_NATIVE=1 makes this an error, PYWHEEL_PURE=1 asks for the twin.
{line}
"""


def flag(name: str) -> bool:
    """Whether an environment variable is set; "" and "0" count as unset."""
    return os.environ.get(name, "") not in ("", "0")


def compiler_options(compiler: str, sanitizers: str) -> tuple[list[str], list[str]]:
    """Return the options to compile and to link with."""
    if compiler == "msvc":
        return ["/O2"], []
    options = ["-fvisibility=hidden"]
    if not sanitizers:
        # What that would put into a vector are the two links of a node: one of them goes on as an address.
        return ["-O3", "-fno-tree-slp-vectorize", *options], []
    # Python's own -fwrapv would hide overflows, and a finding that only prints would fail no test.
    sanitize = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    return ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-wrapv", *options, *sanitize], sanitize


def source_of(name: str) -> Path:
    """Return the path of a package or, without its suffix, of a module among the native sources."""
    return SOURCES.joinpath(*name.split("."))


class BuildNative(build_ext):
    """Translate and compile; without success the twins serve, unless the extensions are required."""

    def build_extensions(self) -> None:
        """Build all, or none and say so loudly: one twin beside native modules would be silently slow."""
        try:
            for extension in self.extensions:
                self.translate(extension)
                self.build_extension(extension)
        except Exception as error:  # whatever is missing here, the twins do without it
            if not any(extension.optional for extension in self.extensions):
                raise
            print(FAILED.format(line="*" * 88, reason=error), file=sys.stderr, flush=True)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions.clear()

    def translate(self, extension: Extension) -> None:
        """Replace the extension's .pyx by C, and give it the options of this compiler."""
        from Cython.Build import cythonize

        source = Extension(extension.name, extension.sources)
        [translated] = cythonize([source], build_dir=self.build_temp, force=True, compiler_directives=DIRECTIVES)
        extension.sources = translated.sources
        compile_options, link_options = compiler_options(
            self.compiler.compiler_type, os.environ.get("PYWHEEL_SANITIZE", "")
        )
        extension.extra_compile_args += compile_options
        extension.extra_link_args += link_options


class BuildPython(build_py):
    """Install the .pxd files in their packages, so that others can cimport them."""

    def _get_data_files(self) -> list[tuple[str, str, str, list[str]]]:
        files = super()._get_data_files()
        for package in ("pywheel", CORE, TIMERS):
            folder, target = source_of(package), Path(self.build_lib, *package.split("."))
            headers = sorted(path.name for path in (ROOT / folder).glob("*.pxd"))
            files.append((package, str(folder), str(target), headers))
        return files


def description() -> str:
    """Return the README with addresses in the place of paths: on PyPI a path leads nowhere, and shows no picture."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Homepage"]
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/pywheel/__init__.py").read_text(), re.MULTILINE)
    assert version is not None
    raw = home.replace("//github.com/", "//raw.githubusercontent.com/") + f"/v{version[1]}/"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^]]*\]\()(?![a-z]+:|#)", rf"\1{raw}", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?![a-z]+:|#)", rf"\1{home}/blob/v{version[1]}/", text)


def native(module: str, macros: dict[str, str] | None = None, *, optional: bool = False) -> Extension:
    """Return an extension, with C macros defined."""
    source = source_of(module).with_suffix(".pyx")
    return Extension(module, [str(source)], define_macros=list((macros or {}).items()), optional=optional)


def build(directory: Path, macros: dict[str, str]) -> Path:
    """Build the wheels alone into `directory`, with C macros defined; return the path of the module.

    For tests, which need limits smaller than real ones. Any failure is an error.
    """
    command = BuildNative(Distribution({"name": "pywheel-timer", "ext_modules": [native(WHEEL, macros)]}))
    command.build_lib = str(directory)
    command.build_temp = str(directory / "temp")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(WHEEL))


if __name__ == "__main__":
    pure = flag("PYWHEEL_PURE") or sys.implementation.name != "cpython"
    required = flag("PYWHEEL_REQUIRE_NATIVE") or flag("CIBUILDWHEEL")
    setup(
        long_description=description(),
        long_description_content_type="text/markdown",
        ext_modules=[] if pure else [native(module, optional=not required) for module in MODULES],
        cmdclass={"build_ext": BuildNative, "build_py": BuildPython},
    )
