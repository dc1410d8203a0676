"""``python -m pywheel.cli``."""

from . import main

main()
