"""Outlets: handlers that deliver due jobs elsewhere. See docs/outlets.md."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .contract import Outlet
    from .webhook import Webhook

__all__ = ["KINDS", "Outlet", "Webhook", "kind"]

KINDS: Final = {
    "kafka": ".kafka:Kafka",
    "nats": ".nats:Nats",
    "rabbitmq": ".rabbitmq:RabbitMQ",
    "redis": ".redis_streams:RedisStreams",
    "webhook": ".webhook:Webhook",
}
"""The module and the class of each kind. A class is imported on first use."""

_LATER: Final = {"Outlet": ".contract:Outlet"} | {place.partition(":")[2]: place for place in KINDS.values()}


def kind(name: str) -> "type[Outlet[Any]]":
    """Return the class of a kind of outlet. KeyError: there is none. ExtraMissing: its package is not installed."""
    return _imported(KINDS[name])  # type: ignore[no-any-return]


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module, __name__), name)


def __getattr__(name: str) -> Any:
    """Import a class on first use: each needs packages of its own."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _imported(_LATER[name])
    return value
