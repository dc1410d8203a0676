"""The workloads of the peers: random deadlines, timeouts that are mostly restarted, the recorded timers of a server."""
