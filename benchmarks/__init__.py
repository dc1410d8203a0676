"""Measurements, never assertions: of the timers, of the jobs, and of other queues beside them."""
