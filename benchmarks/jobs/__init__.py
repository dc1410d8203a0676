"""The jobs beside what the disk and the host allow: `python -m benchmarks.jobs`."""
