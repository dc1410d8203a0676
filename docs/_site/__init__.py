"""What makes the site of the pages."""
