"""Messages of brokers that are to be delivered later become jobs: docs/outlets-brokers.md."""
