"""Django, set up by hand for one database: `database(url)`.

As a program it puts a job in a transaction, and "dies" before the commit, or "ends" or "closes" its queue right after.
"""

import os
import sys
from urllib.parse import urlsplit

from pywheel import JobQueue
from pywheel.stores import open, within

ALIAS = "shop"


def database(url):
    """Return Django's settings of the database in which a store is."""
    with open(url) as store:
        address = store.address
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": urlsplit(url).path.removeprefix("/")}
    if url.startswith("postgresql"):
        [(host, port)] = address.hosts or [(address.options["host"], address.options["port"])]
        place = {"NAME": address.database, "USER": address.user, "HOST": host, "PORT": str(port)}
        return {"ENGINE": "django.db.backends.postgresql", **place}
    socket = address.options["unix_socket"]
    return {"ENGINE": "django.db.backends.mysql", "NAME": address.database, "USER": address.user, "HOST": socket}


def connected(settings):
    """Return Django's connection to a database, under an alias of its own."""
    import django
    from django.conf import settings as all_settings
    from django.db import connections

    if not all_settings.configured:
        all_settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    if settings["ENGINE"].endswith("mysql"):
        import pymysql

        pymysql.install_as_MySQLdb()
    connections.settings.update(connections.configure_settings({"default": {}, ALIAS: settings}))
    return connections[ALIAS]


def forgotten():
    """Close the connection, so that the next one may lead elsewhere."""
    from django.db import connections

    connections[ALIAS].close()
    del connections[ALIAS]


def main(url, what):
    from django.db import transaction

    within._LOOKS = (3_600.0, 3_600.0)  # its thread has no time for a look
    connection = connected(database(url))
    queue = JobQueue(url)
    with transaction.atomic(using=ALIAS):
        print(queue.put("order", key="k", delay="1h", connection=connection), flush=True)
        if what == "dies":
            os._exit(0)
    if what == "closes":
        queue.close()
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
