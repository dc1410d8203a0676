"""A disk without room: a real one, small, in a mount namespace of its own. The same with an injected limit: files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated.child import environment

pytestmark = pytest.mark.stress

READ_ONLY = str(Path(__file__).with_name("read_only_child.py"))
CHILD = str(Path(__file__).with_name("full_disk_child.py"))
UNSHARE = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount"]
SPOOL_CHILD = str(Path(__file__).with_name("full_spool_child.py"))
MOUNT = 'mount -t tmpfs -o size=4m tmpfs "$1"'


def may_mount(folder):
    try:
        return subprocess.run([*UNSHARE, "sh", "-c", MOUNT, "sh", folder], capture_output=True).returncode == 0
    except OSError:
        return False


def run_on_a_disk(folder, child, mount=MOUNT):
    if not may_mount(folder):
        pytest.skip("no small disk can be mounted here")
    command = [*UNSHARE, "sh", "-c", f'{mount} && exec "$2" "$3" "$1"', "sh", folder, sys.executable, child]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_on_a_full_disk_all_is_refused_by_name_and_goes_on_once_there_is_room(tmp_path):
    seen = run_on_a_disk(tmp_path, CHILD)
    assert "no room on the disk: free some" in seen.pop("put")
    refused = ("nack", "new_file", "old_file")  # an end of a claim, which then stands; a new file; one that is opened
    assert all("no room on the disk" in seen.pop(name) for name in refused)
    assert seen == dict.fromkeys(("still_leased", "acked", "intact", "whole", "reopened"), True)


def test_a_disk_that_became_read_only_is_named_so(tmp_path):
    assert run_on_a_disk(tmp_path, READ_ONLY) == ["StoreReadOnly", "StoreReadOnly"]


def test_a_spool_forwards_all_that_it_takes_and_puts_reach_the_store_though_others_fill_its_disk(tmp_path):
    spooled = run_on_a_disk(tmp_path, SPOOL_CHILD, MOUNT.replace("4m", "24m"))
    assert all("no room on the disk" in spooled[name] for name in ("refused", "filled"))
    assert spooled["forwarded"] == spooled["accepted"] > 10
    assert spooled["direct"]
    assert spooled["forwarded later"]
