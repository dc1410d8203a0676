"""What it costs to read a store that holds millions of jobs."""
