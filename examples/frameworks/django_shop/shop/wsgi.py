"""``gunicorn --preload shop.wsgi``: the queue is made here, and opens in each worker, after the fork."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
application = get_wsgi_application()
