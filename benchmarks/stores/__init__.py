"""docs/stores-benchmarks.md."""
