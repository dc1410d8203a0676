"""A disk without room: a real one, small, in a mount namespace of its own. The same with an injected limit: files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated.child import environment

pytestmark = pytest.mark.stress

CHILD = str(Path(__file__).with_name("full_disk_child.py"))
UNSHARE = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount"]
MOUNT = 'mount -t tmpfs -o size={} tmpfs "$1"'


def may_mount(folder):
    try:
        mount = [*UNSHARE, "sh", "-c", MOUNT.format("4m"), "sh", folder]
        return subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        return False


def run_on_a_disk(folder, what, size="4m"):
    if not may_mount(folder):
        pytest.skip("no small disk can be mounted here")
    script = f'{MOUNT.format(size)} && exec "$2" "$3" "$1" "$4"'
    command = [*UNSHARE, "sh", "-c", script, "sh", folder, sys.executable, CHILD, what]
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_on_a_full_disk_all_is_refused_by_name_and_goes_on_once_there_is_room(tmp_path):
    seen = run_on_a_disk(tmp_path, "full")
    # A put, an end of a claim, which then stands, a new file, and one that is opened.
    refused = [seen.pop(name) for name in ("put", "nack", "new_file", "old_file")]
    assert all("no room on the disk" in said and said.startswith("StoreFull:") for said in refused)
    assert "no room on the disk: free some" in refused[0]
    assert seen == dict.fromkeys(("still_leased", "acked", "intact", "whole", "reopened"), True)


def test_a_disk_that_became_read_only_is_named_so(tmp_path):
    assert [said.partition(":")[0] for said in run_on_a_disk(tmp_path, "read_only")] == ["StoreReadOnly"] * 2


def test_a_spool_forwards_all_that_it_takes_and_puts_reach_the_store_though_others_fill_its_disk(tmp_path):
    seen = run_on_a_disk(tmp_path, "spool", size="24m")
    assert all("no room on the disk" in seen[name] for name in ("refused", "filled"))
    assert seen["forwarded"] == seen["accepted"] > 10
    assert seen["direct"]
    assert seen["forwarded later"]
