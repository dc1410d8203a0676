"""Where Linux has huge pages, the timers of a large wheel lie in them: one access, not two, finds each."""

import re
from pathlib import Path

import pytest

SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PAGE_SIZE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
COUNT = 600_000  # some 18 MiB

pytestmark = pytest.mark.skipif(
    not SWITCH.exists() or "[never]" in SWITCH.read_text() or PAGE_SIZE.read_text().strip() != str(2 << 20),
    reason="transparent huge pages of 2 MiB are off",
)


def huge_megabytes():
    """How much of this process's memory lies in huge pages."""
    return sum(map(int, re.findall(r"AnonHugePages: +(\d+) kB", Path("/proc/self/smaps").read_text()))) >> 10


def fallbacks():
    """How often the kernel had no huge page left, so far."""
    return int(re.search(r"^thp_fault_fallback (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)[1])


@pytest.mark.parametrize("class_name", ["TimingWheel", "KeyWheel"])
def test_a_pool_that_grew_to_a_large_one_lies_in_huge_pages(native_core, class_name):
    wheel = getattr(native_core, class_name)()
    before, refused = huge_megabytes(), fallbacks()
    for number in range(COUNT):
        wheel.schedule(1 + number % 100, number)
    gained = huge_megabytes() - before
    if fallbacks() > refused:
        pytest.skip("the kernel has no huge page left")
    assert gained >= 18
    wheel._check()
