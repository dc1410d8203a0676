"""The package in which Django looks for commands."""
