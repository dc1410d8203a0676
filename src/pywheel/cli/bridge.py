"""``pywheel bridge``: messages of a broker with a delay become jobs."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..client.queue import JobQueue
from ..observe import logs
from .options import AStore, Group
from .output import note

if TYPE_CHECKING:
    from ..inlets.bridge import Source

_NAME: Final = "The topic of the jobs."

bridge = Group("bridge", "Take messages with a delay from a broker, and put them as jobs.")


@bridge.command()
def rabbitmq(
    queue: Annotated[str, typer.Argument(help="The queue of RabbitMQ.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help=_NAME)],
    on: AStore,
    broker: Annotated[
        str, typer.Option(envvar="PYWHEEL_BROKER", help="Address; with a password rather by the variable.")
    ] = "amqp://localhost",
    exchange: Annotated[
        str | None, typer.Option(help="Declare this fanout exchange and the queue, durable, and bind them.")
    ] = None,
    prefetch: Annotated[int, typer.Option(min=1, max=65_535, help="Messages to take at once.")] = 1_000,
) -> None:
    """Take the messages of a queue of RabbitMQ, until SIGTERM or Ctrl-C."""
    from ..inlets.rabbitmq import RabbitMQSource

    with on.opened(keys=True) as jobs:
        _run(jobs, topic, RabbitMQSource(broker, queue, exchange=exchange, prefetch=prefetch))


@bridge.command()
def kafka(
    source: Annotated[str, typer.Argument(help="The topic of Kafka.")],
    topic: Annotated[str, typer.Option("--topic", "-t", help=_NAME)],
    on: AStore,
    servers: Annotated[str, typer.Option(envvar="PYWHEEL_BROKER", help="host:port,host:port")] = "localhost:9092",
    group: Annotated[str, typer.Option(help="The consumer group.")] = "pywheel",
    to: Annotated[str | None, typer.Option(help="Where an outlet delivers the jobs.")] = None,
    refused: Annotated[str | None, typer.Option(help="The topic that gets records that make no sense.")] = None,
) -> None:
    """Take the records of a topic of Kafka, until SIGTERM or Ctrl-C."""
    from ..inlets.kafka import KafkaSource

    with on.opened(keys=True) as jobs:
        _run(jobs, topic, KafkaSource(servers, source, group=group, to=to, refused=refused))


def _run(jobs: JobQueue, topic: str, source: Source) -> None:
    from ..inlets.bridge import Bridge  # the other commands do not need it

    async def work() -> Bridge:
        bridge = Bridge(jobs, topic, source)
        note(f"pywheel: from {source.name} into {jobs.store.url}")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, bridge.stop)
        await bridge.run()
        return bridge

    logs.begin()
    logging.getLogger("aiormq").setLevel(logging.ERROR)  # the bridge logs errors itself, and tries again
    done = asyncio.run(work())
    note(f"pywheel: {done.taken:,} taken, {done.refused:,} refused")
