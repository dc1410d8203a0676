"""Lives of processes whose power fails: their calls, and the possible contents of their disk after each."""

import json
import shutil

from tests.faults.calls import recorded, run_child
from tests.faults.disk import Disk

OF_A_LIFE = 100  # failures
GENERATIONS = 3  # lives on one folder, each on what a power failure left of the one before


class Life:
    """A program of this folder, run in a folder of its own. `fault` picks calls that a disk which lies did not do."""

    def __init__(self, program, folder, seed, steps, *, synchronous="FULL", fault=None, kept=()):
        self.disk = Disk(folder, kept)
        log = folder.with_name(f"{folder.name}.log")
        run_child(program, folder, log, seed, steps, synchronous)
        self.calls = [call for call in recorded(log) if fault is None or not fault(call)]
        log.unlink()
        self._notes = [
            (at, json.loads(call.data)) for at, call in enumerate(self.calls) if call.kind == "m" and not call.path
        ]

    def notes(self, moment):
        """Return what was noted before a call, and the rest."""
        return [note for at, note in self._notes if at < moment], [note for at, note in self._notes if at >= moment]


def fail(life, before, tmp_path, dice, count, account):
    """Let the power fail at `count` moments of a life, and account for each; return one folder, and its account."""
    moments = sorted(dice.sample(range(1, len(life.calls) + 1), count))
    chosen, left, at = dice.choice(moments), tmp_path / f"left{dice.getrandbits(60)}", 0
    for moment in moments:
        for call in life.calls[at:moment]:
            life.disk.do(call)
        at = moment
        folder = tmp_path / "after"
        folder.mkdir()
        life.disk.fail(dice, folder)
        if moment == chosen:
            shutil.copytree(folder, left)
        try:
            accounted = account(before, folder, *life.notes(moment))
        except BaseException as error:
            error.add_note(f"the power failed before call {moment} of {len(life.calls)}")
            raise
        if moment == chosen:
            of_left = accounted
        shutil.rmtree(folder)
    return left, of_left


def fail_often(program, tmp_path, dice, count, steps, account, **options):
    """Let generations live on a folder, and the power fail so often in all. `account` gets what it returned before."""
    for number in range(-(-count // OF_A_LIFE)):
        if number % GENERATIONS == 0:
            folder, before = tmp_path / f"new{number}", []
            folder.mkdir()
        life = Life(program, folder, dice.getrandbits(30), steps, **options)
        folder, before = fail(life, before, tmp_path, dice, min(count, OF_A_LIFE), account)
