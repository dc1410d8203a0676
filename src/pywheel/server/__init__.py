"""The service: HTTP API, page and metrics, as one ASGI application.

It needs ``pip install 'pywheel-timer[server]'``.
"""

try:
    from .app import app
    from .context import Context, Limits
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "msgspec", "uvicorn", "httptools"):
        raise
    _NEEDED = error.name

    def __getattr__(name: str) -> object:
        """Say what is missing to whoever wants the service; `pywheel token` wants `server.tokens` alone."""
        if name in __all__:
            raise ModuleNotFoundError(f"the service needs {_NEEDED}: pip install 'pywheel-timer[server]'", name=_NEEDED)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Context", "Limits", "app"]
