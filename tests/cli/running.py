"""Commands as processes of their own."""

import subprocess
import sys
from contextlib import contextmanager

from tests.isolated.child import environment
from tests.jobs.waiting import LIMIT, until


class Running:
    """A command that runs; what it says goes into files."""

    def __init__(self, arguments, folder, variables):
        self._files = [folder / f"{arguments[0]}-{stream}.txt" for stream in ("out", "err")]
        known = environment(
            **{"PYTHONDONTWRITEBYTECODE": "1", "PYWHEEL_STORE": None, "PYWHEEL_KEYS": None, **variables}
        )
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            command = [sys.executable, "-m", "pywheel.cli", *map(str, arguments)]
            self.process = subprocess.Popen(
                command, env=known, cwd=folder, stdout=out, stderr=err, start_new_session=True
            )
        self.send = self.process.send_signal

    @property
    def out(self):
        return self._files[0].read_text()

    @property
    def err(self):
        return self._files[1].read_text()

    def says(self, text):
        """Wait until it has complained of this, or said it as logs do."""
        until(lambda: text in self.err or self.process.poll() is not None)
        assert text in self.err, self.err

    def ends(self, code=0):
        """Wait for its end, with this exit code; return what it said on its way."""
        assert self.process.wait(LIMIT) == code, self.err
        assert "Traceback" not in self.err
        return self.err


@contextmanager
def running(*arguments, folder, **variables):
    """Run ``pywheel``; kill it at the end if it has not ended."""
    command = Running(arguments, folder, variables)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()
