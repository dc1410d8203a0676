"""What each command does to the file."""
