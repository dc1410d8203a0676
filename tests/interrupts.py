"""Signals at each place where CPython lets handlers run: where a function begins, a call returns, code loops."""

import dis
import sys
from contextlib import contextmanager
from functools import cache
from itertools import count

import pytest

TRACES_OPCODES = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="this Python does not show each instruction to a trace function, or crashes"
)


class Intrusion:
    """Has `intruder` called, once, at place number `number` in functions of these files; `happened` says if it was."""

    def __init__(self, number, files, intruder):
        self.left = number
        self.happened = False
        self._files = files
        self._intruder = intruder
        self._last = {}

    def trace(self, frame, event, argument):
        if self.happened or not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._last[frame] = None
        elif event == "opcode":
            here = frame.f_lasti
            last, self._last[frame] = self._last.get(frame, here), here
            if _is_place(frame.f_code, last, here):
                self.left -= 1
                if self.left == 0:
                    self.happened = True
                    self._last.clear()
                    self._intruder()
        return self.trace


def _is_place(code, last, here):
    """Whether handlers of signals may run after the instruction `last` (None: it begins), before `here`.

    What they raise is raised here, one instruction late: not where that is beyond the `try` or the `with`.
    """
    name = "RESUME" if last is None else dis.opname[code.co_code[last]]
    if dis.opname[code.co_code[here]] == "PUSH_EXC_INFO":  # it has raised
        return False
    if last is not None and _handlers(code, last) != _handlers(code, here):
        return False
    return name.startswith(("RESUME", "CALL", "JUMP_BACKWARD"))


@cache
def _handlers(code, offset):
    return [entry.target for entry in dis._parse_exception_table(code) if entry.start <= offset < entry.end]


@contextmanager
def traced(intrusion):
    """Have it come in the present thread."""
    before = sys.gettrace()
    sys.settrace(intrusion.trace)
    try:
        yield
    finally:
        sys.settrace(before)


def at_each_place(files, intruder):
    """Yield an intrusion for each place, until one does not happen."""
    for number in count(1):
        intrusion = Intrusion(number, files, intruder)
        yield intrusion
        if not intrusion.happened:
            assert number > 3
            return


def interrupt():
    """Raise what nobody expects."""
    raise KeyboardInterrupt
