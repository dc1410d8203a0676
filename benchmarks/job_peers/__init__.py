"""pywheel's jobs and the queues they are measured against: one program each. None imports another's library."""
