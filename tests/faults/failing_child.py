"""Live on a store in a file while one call of the system fails, each in a process of its own, until none does.

usage: failing_child.py FOLDER ERROR KIND END

KIND: a letter of calls.c, or all. END: closed, or cut off. Prints a line of JSON for each call: what was told of the
error that it led to, and what the store held at the end.
"""

import ctypes
import errno
import json
import os
import sys
import traceback
from functools import partial
from itertools import count
from pathlib import Path

from pywheel import StoreError
from tests.faults.notes import NAME, with_settings
from tests.faults.store_life import Life, held

STEPS = 12


class Quiet:
    def note(self, **what):
        pass


class FailingLife(Life):
    """A life whose steps may fail, each of which is tried once more. An error means that nothing was done."""

    def __init__(self, folder):
        self.errors = []
        super().__init__(folder, Quiet(), 7)

    def told(self, work):
        try:
            return work()
        except StoreError as error:
            self.errors.append([type(error).__name__, str(error)])
            return None

    def open(self):
        if self.told(super().open) is None and self.errors:
            super().open()

    def held(self):
        return self.told(lambda: held(self.store)) or held(self.store)

    def live(self):
        before = self.held()
        for _ in range(STEPS):
            command = self.told(self.command) or self.command()
            errors = len(self.errors)
            self.told(partial(self.store.apply, [command]))
            after = self.held()
            if len(self.errors) > errors:
                assert after == before, f"{self.errors[-1]} was told, and {set(after) ^ set(before)} has happened"
            before = after
        return before


def main(folder, error, kind, end):
    with_settings()
    library = ctypes.CDLL(None)
    for number in count(1):
        here = Path(folder) / str(number)
        here.mkdir()
        child = os.fork()
        if child == 0:
            try:
                library.calls_record(str(here).encode(), b"/dev/null")
                only = ctypes.c_char(b"\0" if kind == "all" else kind.encode())
                library.calls_fail(ctypes.c_long(number), getattr(errno, error), only, 0)
                life = FailingLife(here)
                kept = life.live()
                if end == "closed":
                    life.told(life.store.close)
                result = {"file": f"{here}/{NAME}", "errors": life.errors, "held": kept}
            except BaseException:
                result = {"wrong": traceback.format_exc()}
            print(json.dumps({"number": number, "made": library.calls_made(), **result}), flush=True)
            os._exit(library.calls_made() < number)
        _, over = os.waitpid(child, 0)
        if over:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
