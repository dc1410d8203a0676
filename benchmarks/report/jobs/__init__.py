"""docs/jobs-benchmarks.md and docs/service-benchmarks.md."""
