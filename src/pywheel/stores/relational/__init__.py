"""The shared part of stores in databases on servers: connections, waiting for locks, and wake-ups of workers.

`stores.sql` has the meaning of commands and queries. A database brings its dialect, and the carrier of its statements.
"""
