"""The SQL engine: the meaning of commands and queries, as statements, for every database that the stores use.

Nothing here does I/O. A command becomes a generator that yields batches of statements, is sent their rows, and returns
the outcome. The owner of a connection drives the generator: a store, or a transaction of the caller's own.
"""
