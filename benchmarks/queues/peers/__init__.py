"""The queues that are measured: one program each, client and worker. None imports another's library."""
