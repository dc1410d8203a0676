"""Pools with enough timers to be memory mappings of their own, on Linux; these move as they grow."""

import importlib.util
import os
import sys

import pytest

from tests.implementations import PURE_ONLY
from tests.isolated.child import run_well

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(PURE_ONLY or sys.platform != "linux", reason="the native wheel maps memory on Linux"),
]

MREMAP = {"x86_64": 25, "aarch64": 216}.get(os.uname().machine if hasattr(os, "uname") else "")

GROW = """
from pywheel.core import KeyWheel

def grow(wheel, count):
    for number in range(len(wheel), count):
        wheel.schedule(1 + number % 1000, number)

def check(wheel):
    wheel._check()
    expected = [number for place in range(1000) for number in range(place, len(wheel), 1000)]
    assert wheel.advance(1000) == expected, "timers were lost"

wheel = KeyWheel()
"""
WITHOUT_MREMAP = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]
# Load the number of the call; EPERM if it is that of mremap; else allow it.
filters = (Filter * 4)((0x20, 0, 0, 0), (0x15, 0, 1, {mremap}), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000))
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
assert libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
if libc.prctl(SECCOMP, FILTER, ctypes.byref(Program(4, filters)), 0, 0):
    print("no filters")
    raise SystemExit
libc.mremap.restype = ctypes.c_void_p
assert libc.mremap(ctypes.c_void_p(0), 0, 0, 0) == ctypes.c_void_p(-1).value and ctypes.get_errno() == 1
grow(wheel, 400_000)
check(wheel)
"""
WITHOUT_ROOM = """
import resource
from pathlib import Path

grow(wheel, 200_000)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), resource.RLIM_INFINITY))
try:
    grow(wheel, 10**7)
except MemoryError:
    pass
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert 200_000 <= len(wheel) < 300_000, f"memory was not out with {len(wheel)} timers"
grow(wheel, 400_000)
check(wheel)
"""
GIVEN_BACK = """
from pathlib import Path

def megabytes():
    return int(Path("/proc/self/statm").read_text().split()[0]) >> 8

for round in range(20):
    if round == 5:
        before = megabytes()
    wheel = KeyWheel()
    wheel.reserve(400_000)
    if round % 2:
        wheel.clear()
del wheel
assert megabytes() < before + 13, "a pool of 12 MiB or more was not given back"
"""


@pytest.mark.skipif(MREMAP is None, reason="the number of the system call is not known")
def test_a_large_pool_grows_in_a_sandbox_without_mremap():
    if run_well("-c", GROW + WITHOUT_MREMAP.format(mremap=MREMAP)) == "no filters\n":
        pytest.skip("this kernel filters no system calls")


def test_a_large_pool_that_finds_no_room_to_grow_raises_memory_error_and_loses_no_timer():
    run_well("-c", GROW + WITHOUT_ROOM)


def test_large_pools_are_given_back_by_clear_and_with_their_wheel():
    run_well("-c", GROW + GIVEN_BACK)


WITHOUT_A_BITMAP = """
import _testcapi

for start in range(4):
    for first, more in ((0, 400_000), (200_000, 400_000), (200_000, 10**6)):
        wheel = KeyWheel()
        grow(wheel, first)
        _testcapi.set_nomemory(start, start + 1)
        try:
            wheel.reserve(more)
        except MemoryError:
            pass
        _testcapi.remove_mem_hooks()
        grow(wheel, first + 1000)
        grow(wheel, first + 250_000)
        check(wheel)
"""


@pytest.mark.skipif(importlib.util.find_spec("_testcapi") is None, reason="this Python comes without _testcapi")
def test_a_pool_that_got_a_mapping_and_no_bitmap_for_it_grows_by_less():
    run_well("-c", GROW + WITHOUT_A_BITMAP)
