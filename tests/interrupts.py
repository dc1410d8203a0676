"""Signals at each place where CPython lets handlers run: where a function begins, a call returns, code loops."""

import dis
import sys
import threading
from contextlib import contextmanager
from functools import cache
from itertools import count

CHECKS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


class Intrusion:
    """Has `intruder` called, once, at place number `number` in functions of these files; `happened` says if it was."""

    def __init__(self, number, files, intruder):
        self.left = number
        self.happened = False
        self._files = files
        self._intruder = intruder
        self._last = {}

    def concerns(self, code):
        """Whether places in it count."""
        return code.co_filename.endswith(self._files)

    def meets(self, frame, here):
        """Intrude if this is the place: before the instruction at `here`."""
        last, self._last[frame] = self._last.get(frame), here
        if not self.happened and _is_place(frame.f_code, last, here):
            self.left -= 1
            if self.left == 0:
                self.happened = True
                self._last.clear()
                self._intruder()


def _is_place(code, last, here):
    """Whether handlers of signals may run after the instruction `last`, before `here`; or at `here`, where code begins.

    Their exceptions are raised here, one instruction late: not if that is beyond the `try` or the `with`.
    """
    name = dis.opname[code.co_code[here]]
    if name == "RESUME":
        return code.co_code[here + 1] & 3 < 2  # not in an await
    if last is None or name == "PUSH_EXC_INFO":  # it has raised
        return False
    return dis.opname[code.co_code[last]] in CHECKS and _handlers(code, last) == _handlers(code, here)


@cache
def _handlers(code, offset):
    return [entry.target for entry in dis._parse_exception_table(code) if entry.start <= offset < entry.end]


@contextmanager
def traced(intrusion, others=False):
    """Have it come in the present thread, or in the others."""
    watch = _monitor if hasattr(sys, "monitoring") else _trace  # which sees too little from Python 3.12 on, or crashes
    me = threading.get_ident()
    with watch(intrusion, lambda: (threading.get_ident() != me) == others):
        yield


@contextmanager
def _monitor(intrusion, is_there):
    """Let it see each instruction; where code begins or goes on there is no such event."""
    tool, monitoring = 3, sys.monitoring  # a number that is nobody's
    events = [monitoring.events.PY_START, monitoring.events.PY_RESUME, monitoring.events.INSTRUCTION]

    def see(code, here):
        if not intrusion.concerns(code):
            return monitoring.DISABLE
        if is_there():
            intrusion.meets(sys._getframe(1), here)
        return None

    monitoring.use_tool_id(tool, __name__)
    try:
        for event in events:
            monitoring.register_callback(tool, event, see)
        monitoring.restart_events()
        monitoring.set_events(tool, sum(events))
        yield
    finally:
        monitoring.set_events(tool, 0)
        for event in events:
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


@contextmanager
def _trace(intrusion, is_there):
    """Do the same on Python 3.11; of the others, in those that begin meanwhile.

    One of both is set: CPython 3.11 refuses to trace one thread while a hook of audits hears that another is traced.
    """

    def see(frame, event, argument):
        if intrusion.happened or not is_there() or not intrusion.concerns(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode"):
            intrusion.meets(frame, frame.f_lasti)
        return see

    which = sys if is_there() else threading
    before = which.gettrace()
    which.settrace(see)
    try:
        yield
    finally:
        which.settrace(before)


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
