"""The jobs beside other queues, on real servers: `python -m benchmarks.queues`."""
