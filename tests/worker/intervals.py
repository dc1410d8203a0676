"""Intervals of time: sorted lists of (from, until) that do not touch."""

from bisect import bisect_left

__all__ = ["NEVER", "crowded", "less", "longest", "union"]

NEVER = float("inf")


def union(intervals):
    out = []
    for begin, end in sorted(intervals):
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(end, out[-1][1])
        elif end > begin:
            out.append((begin, end))
    return out


def less(intervals, gaps):
    """Return the intervals without the gaps; both sorted."""
    out = []
    for begin, end in intervals:
        for gap, over in gaps[max(bisect_left(gaps, (begin,)) - 1, 0) :]:
            if gap >= end:
                break
            if over <= begin:
                continue
            if gap > begin:
                out.append((begin, gap))
            begin = over
        if begin < end:
            out.append((begin, end))
    return out


def longest(intervals, begin, end):
    """Return the longest part of one that lies between two times, and where it ends."""
    best = (0.0, begin)
    for left, right in intervals[max(bisect_left(intervals, (begin,)) - 1, 0) :]:
        if left >= end:
            break
        best = max(best, (min(right, end) - max(left, begin), min(right, end)))
    return best


def crowded(runs, most):
    """Return when at least `most` of these intervals overlap."""
    steps = sorted([(begin, 1) for begin, _ in runs] + [(end, -1) for _, end in runs])
    out, inside, since = [], 0, None
    for at, step in steps:
        inside += step
        if inside >= most and since is None:
            since = at
        elif inside < most and since is not None:
            out.append((since, at))
            since = None
    return union(out + ([(since, NEVER)] if since is not None else []))
