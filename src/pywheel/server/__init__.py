"""The service: HTTP API, page and metrics, as one ASGI application.

It needs ``pip install 'pywheel-timer[server]'``.
"""

from typing import TYPE_CHECKING, Any, Final

from .._later import later

if TYPE_CHECKING:
    from .access import ProxySignIn
    from .context import Context, Limits
    from .service import app

__all__ = ["Context", "Limits", "ProxySignIn", "app"]

# Every command of the command line imports `server.tokens`, and few need the service.
_LATER: Final = {"app": ".service", "Context": ".context", "Limits": ".context", "ProxySignIn": ".access"}
_EXTRA: Final = ("starlette", "msgspec", "granian", "jinja2")
_imported = later(globals(), _LATER)


def __getattr__(name: str) -> Any:
    """Import the service on first use. ModuleNotFoundError names the extra to install."""
    try:
        return _imported(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise ModuleNotFoundError(
            f"the service needs {error.name}: pip install 'pywheel-timer[server]'", name=error.name
        ) from None
