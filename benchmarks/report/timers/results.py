"""The results of the timers, round by round."""

from __future__ import annotations

from statistics import median

from benchmarks.kept import Kept


def known(value: float | None) -> float:
    """Return a figure; KeyError if it was not measured."""
    if value is None:
        raise KeyError
    return value


class Results:
    """Seconds an operation, round by round, by measure, peer, size and workload."""

    def __init__(self, kept: Kept) -> None:
        self.about = kept["about"]
        self._seconds: dict[tuple[str, str, int, str], list[float]] = {}
        self._values: dict[tuple[str, str, int, str], dict[str, float]] = {}
        for name, found in kept["results"].items():
            measure, peer, size, workload = name.split(" | ")
            key = measure, peer, int(size), workload
            self._seconds[key] = found["seconds"]
            self._values[key] = found.get("values", {})

    def ns(self, measure: str, peer: str, size: int = 0, workload: str = "uniform") -> float | None:
        """Return the median, nanoseconds an operation; None if it was not measured."""
        seconds = self._seconds.get((measure, peer, size, workload))
        return median(seconds) * 1e9 if seconds else None

    def ratio(self, measure: str, peer: str, base: str, size: int = 0, workload: str = "uniform") -> float | None:
        """Return how many times the time of `base` the peer took: the median of the rounds' ratios.

        A peer with fewer turns had them in the first rounds.
        """
        ours = self._seconds.get((measure, base, size, workload))
        theirs = self._seconds.get((measure, peer, size, workload))
        if not ours or not theirs:
            return None
        return median(their / our for their, our in zip(theirs, ours, strict=False))

    def usual_ratio(self, measure: str, peer: str, base: str, workload: str = "uniform") -> float | None:
        """Return the median of the ratios at all sizes."""
        ratios = [self.ratio(measure, peer, base, size, workload) for size in self.sizes(measure, workload)]
        known = [ratio for ratio in ratios if ratio is not None]
        return median(known) if known else None

    def more_ms(self, measure: str, peer: str, base: str, size: int) -> float | None:
        """Return how many milliseconds more than `base` the peer took: the median of the rounds' differences."""
        ours = self._seconds.get((measure, base, size, "uniform"))
        theirs = self._seconds.get((measure, peer, size, "uniform"))
        if not ours or not theirs:
            return None
        return median(their - our for their, our in zip(theirs, ours, strict=True)) * 1e3

    def value(self, name: str, measure: str, peer: str, size: int = 0, workload: str = "uniform") -> float | None:
        """Return a value that is no time of its own; None if it was not measured."""
        return self._values.get((measure, peer, size, workload), {}).get(name)

    def sizes(self, measure: str, workload: str = "uniform") -> list[int]:
        """Return the sizes a measure was taken at."""
        return sorted({key[2] for key in self._seconds if key[0] == measure and key[3] == workload})

    def peers(self, measure: str, workload: str = "uniform") -> list[str]:
        """Return the names of the measured peers."""
        return list(dict.fromkeys(key[1] for key in self._seconds if key[0] == measure and key[3] == workload))
