"""Outlets: handlers that deliver due jobs elsewhere. See docs/outlets.md."""

from typing import TYPE_CHECKING, Any, Final

from .._later import later

if TYPE_CHECKING:
    from .contract import Outlet
    from .webhook import Webhook

__all__ = ["KINDS", "Outlet", "Webhook", "kind"]

KINDS: Final = {"kafka": "Kafka", "nats": "Nats", "rabbitmq": "RabbitMQ", "redis": "RedisStreams", "webhook": "Webhook"}
"""The class of each kind."""

# Each class needs packages of its own.
_LATER: Final = {
    "Kafka": ".kafka",
    "Nats": ".nats",
    "Outlet": ".contract",
    "RabbitMQ": ".rabbitmq",
    "RedisStreams": ".redis_streams",
    "Webhook": ".webhook",
}
__getattr__ = later(globals(), _LATER)


def kind(name: str) -> "type[Outlet[Any]]":
    """Return the class of a kind of outlet. KeyError: there is none. ExtraMissing: its package is not installed."""
    return __getattr__(KINDS[name])  # type: ignore[no-any-return]
