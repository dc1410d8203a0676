"""What stores in databases on servers share: connections, who waits for whom, and how workers are woken.

What commands and queries mean is in `stores.sql`. A database brings its dialect, and what carries statements to it.
"""
