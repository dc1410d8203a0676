"""The wheel and the timers: pytest-benchmark tests, in rounds in which every peer takes its turn."""
