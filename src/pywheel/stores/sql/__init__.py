"""The SQL engine: what a command or a query means, in statements, for every database that the stores use.

Nothing here does I/O. A command becomes a generator that yields batches of statements and is sent their rows; what it
returns is the outcome. Whoever has a connection drives it: a store, or a transaction of the caller's own.
"""
