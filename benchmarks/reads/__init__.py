"""The cost of reading a store that holds millions of jobs."""
