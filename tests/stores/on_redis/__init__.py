"""Named so that scripts beside it, which are run by their path, import the redis that they mean."""
