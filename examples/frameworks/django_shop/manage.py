"""A shop on Django: unpaid orders are closed after a while.

python manage.py migrate && python manage.py runserver
python manage.py pywheel work
"""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
