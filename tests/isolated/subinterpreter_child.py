"""Run code in a subinterpreter, and then, if asked for, in the main one."""

import datetime  # noqa: F401 - CPython 3.12.1 aborts if a subinterpreter is the first to import it
import sys
from importlib import import_module

OWN_GIL, SHARED_GIL = "isolated", "legacy"


def run(code, config):
    """Run it in a new interpreter of that kind, and end that; return whether it raised nothing."""
    if sys.version_info >= (3, 13):
        interpreters = import_module("_interpreters")
        interpreter = interpreters.create(config)
        worked = interpreters.exec(interpreter, code) is None
    else:
        interpreters = import_module("_xxsubinterpreters")
        interpreter = interpreters.create(isolated=config == OWN_GIL)
        try:
            interpreters.run_string(interpreter, code)
            worked = True
        except interpreters.RunFailedError as error:
            print(error, file=sys.stderr)
            worked = False
    interpreters.destroy(interpreter)
    return worked


if __name__ == "__main__":
    config, code, *after = sys.argv[1:]
    failed = not run(code, config)
    for line in after:
        exec(line)
    sys.exit(failed)
