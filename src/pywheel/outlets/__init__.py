"""Handlers that deliver elsewhere when a job is due."""
