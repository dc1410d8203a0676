"""docs/benchmarks.md, its pictures, and the README's figures: `python -m benchmarks.report.timers`."""
