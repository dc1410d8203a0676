"""docs/jobs-peers.md and its picture."""
