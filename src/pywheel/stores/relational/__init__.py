"""What stores in relational databases share: a transaction reads what commands name, decides here, and writes.

`wanted` says what commands name, `part` is what was read of it and what becomes of it, `changes` the rows to be
written. A database brings the statements, and the connections that run them.
"""
