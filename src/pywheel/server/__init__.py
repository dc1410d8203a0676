"""The service: HTTP API, page and metrics, as one ASGI application."""
