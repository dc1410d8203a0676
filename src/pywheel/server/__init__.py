"""The service: HTTP API, page and metrics, as one ASGI application.

It needs ``pip install 'pywheel-timer[server]'``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .access import ProxySignIn
    from .context import Context, Limits
    from .service import app

__all__ = ["Context", "Limits", "ProxySignIn", "app"]

# Every command of the command line imports `server.tokens`, and few need the service.
_LATER: Final = {"app": ".service", "Context": ".context", "Limits": ".context", "ProxySignIn": ".access"}
_EXTRA: Final = ("starlette", "msgspec", "granian", "jinja2")


def __getattr__(name: str) -> Any:
    """Import the service on first use. ModuleNotFoundError names the extra to install."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f"the service needs {error.name}: pip install 'pywheel-timer[server]'", name=error.name
        ) from None
    return value
