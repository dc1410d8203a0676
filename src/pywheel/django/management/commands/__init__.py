"""The command ``pywheel``."""
