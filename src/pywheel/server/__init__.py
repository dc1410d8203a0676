"""The service: HTTP API, page and metrics, as one ASGI application.

It needs ``pip install 'pywheel-timer[server]'``.
"""

try:
    from .app import app
    from .context import Context, Limits
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("starlette", "msgspec", "uvicorn", "httptools"):
        raise
    raise ModuleNotFoundError(
        f"the service needs {error.name}: pip install 'pywheel-timer[server]'", name=error.name
    ) from error

__all__ = ["Context", "Limits", "app"]
