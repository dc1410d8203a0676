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


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    return run_on_a_disk(tmp_path_factory.mktemp("disk"), CHILD)


def test_a_put_on_a_full_disk_is_refused_and_says_how_to_mend_it(seen):
    assert "no room on the disk: free some" in seen["put"]


def test_an_end_of_a_claim_on_a_full_disk_is_refused_and_the_claim_stands(seen):
    assert "no room on the disk" in seen["nack"]
    assert seen["still_leased"]


def test_once_there_is_room_the_claims_can_be_acked_and_jobs_put(seen):
    assert seen["acked"]


def test_every_job_that_was_told_is_there_and_no_other(seen):
    assert seen["intact"]
    assert seen["whole"]
    assert seen["reopened"]


def test_a_new_file_on_a_full_disk_is_refused_by_name(seen):
    assert "no room on the disk" in seen["new_file"]


def test_a_file_that_is_opened_on_a_full_disk_is_refused_by_name(seen):
    assert "no room on the disk" in seen["old_file"]


def test_a_disk_that_became_read_only_is_named_so(tmp_path):
    assert run_on_a_disk(tmp_path, READ_ONLY) == ["StoreReadOnly", "StoreReadOnly"]


# ---- a spool --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spooled(tmp_path_factory):
    return run_on_a_disk(tmp_path_factory.mktemp("disk"), SPOOL_CHILD, MOUNT.replace("4m", "24m"))


def test_a_spool_takes_no_more_than_it_can_forward_and_forwards_all_of_it(spooled):
    assert "no room on the disk" in spooled["refused"]
    assert spooled["accepted"] > 10
    assert spooled["forwarded"] == spooled["accepted"]


def test_while_others_fill_the_disk_of_a_spool_puts_reach_the_store_that_is_back(spooled):
    assert "no room on the disk" in spooled["filled"]
    assert spooled["direct"]
    assert spooled["forwarded later"]
