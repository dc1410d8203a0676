"""docs/scaling.md: its tables and its picture."""
