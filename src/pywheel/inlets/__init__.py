"""Inlets: messages of brokers with a delay become jobs. See docs/outlets-brokers.md."""
