"""Measurements of the service."""
