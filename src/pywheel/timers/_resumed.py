"""What a loop calls, and an interrupt on the way there does not undo."""

from __future__ import annotations

from collections.abc import Callable, Generator


def resumed(step: Callable[[], None], recover: Callable[[], None]) -> Generator[None, None, None]:
    """Return what a loop is to call `next` with: that calls ``step()``, and ``recover()`` if an exception ends it.

    A signal's handler runs, and may raise, as soon as a function begins, before the first `try` in it. uvloop even
    holds it back until then, and has forgotten its own handle. But a generator goes on in the midst of a `try`.
    """
    steps = _steps(step, recover)
    steps.__qualname__ = step.__qualname__  # for what a loop says in debug mode
    next(steps)
    return steps


def _steps(step: Callable[[], None], recover: Callable[[], None]) -> Generator[None, None, None]:
    try:
        while True:
            yield
            step()
    except GeneratorExit:  # the loop will not call
        pass
    except BaseException:
        recover()
        raise
