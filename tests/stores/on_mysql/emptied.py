"""Empty stores, quickly: MySQL makes tables slowly."""

import contextlib
from urllib.parse import urlsplit

KEPT = {}  # by server and options: an address
COUNTERS = "number"


def emptied(server, **options):
    """Return the address of a store without jobs: the same as the last time, its rows deleted."""
    key = (id(server), server.pid, *sorted(options.items()))
    if key not in KEPT:
        KEPT[key] = server.url(**options)
        return KEPT[key]
    database = urlsplit(KEPT[key]).path[1:]
    with contextlib.closing(server.connect(database=database)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for [table] in cursor.fetchall():
            if not table.endswith(COUNTERS):
                cursor.execute(f"DELETE FROM {table}")
    return KEPT[key]
