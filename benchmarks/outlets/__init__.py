"""Measurements of the outlets, beside endpoints in processes of their own."""
