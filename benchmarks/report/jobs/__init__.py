"""docs/jobs-benchmarks.md."""
