"""Measurements, and the demo that `make demo` runs. Nothing here is installed."""
