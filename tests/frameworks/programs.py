"""The programs of examples/frameworks, as processes that are asked by HTTP."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from tests.isolated.child import environment, run
from tests.jobs.waiting import LIMIT, until
from tests.ports import reserved_ports

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "frameworks"
DJANGO = FOLDER / "django_shop"


class Program:
    """``python -m COMMAND``, with ``PORT`` in it replaced by one of its own."""

    def __init__(self, command, folder, log, variables, *, python=sys.executable, inherited=None):
        [self.port] = reserved_ports(1)
        self._log = log
        known = environment(**{"PYTHONPATH": str(folder), **variables}) if inherited is None else inherited | variables
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [python, *(str(part).replace("PORT", str(self.port)) for part in command)],
                cwd=folder,
                env=known,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        if any("PORT" in str(part) for part in command):
            until(self._answers)

    @property
    def said(self):
        return self._log.read_text(errors="replace")

    def _answers(self):
        assert self._process.poll() is None, self.said
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0

    def ask(self, method, path):
        """Return the status and the JSON of an answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")
        except (OSError, HTTPException) as error:
            raise AssertionError(f"{error!r}: {self.said}") from error

    def kill(self):
        """End it at once, wherever it is."""
        self._process.kill()
        self._process.wait()

    def wait(self, seconds):
        """Return its exit code, once it has ended by itself."""
        return self._process.wait(seconds)

    def stop(self):
        """Have it drain; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(self.said) from None


class Project:
    """The project of Django, with its database in a folder, or on a server."""

    def __init__(self, start, folder, **variables):
        self._start = start
        self.variables = {"SHOP_FOLDER": str(folder), "PYWHEEL_STORE": None, "SHOP_DATABASE": None, **variables}

    def start(self, *command, folder=DJANGO, **variables):
        return self._start(*command, folder=folder, **self.variables, **variables)

    def manage(self, *arguments, code=0):
        """Return what a command prints."""
        program = ("-W", "error", str(DJANGO / "manage.py"))
        result = run(*program, *arguments, cwd=DJANGO, **self.variables)
        assert result.returncode == code, result.stdout + result.stderr
        return result.stdout + result.stderr

    def shell(self, *lines):
        """Return what lines of Python print in the project."""
        return self.manage("shell", "-v", "0", "-c", "".join(lines))

    def call(self, *commands):
        """Run several commands of Django in one process."""
        calls = (f"call_command(*{command!r})\n" for command in commands)
        return self.shell("from django.core.management import call_command\n", *calls)
