"""The brokers that outlets and the bridge are tested on: real ones, which the tests start themselves."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from tests.ports import reserved_ports
from tests.stores.server import Missing, Server, environment, nobody

__all__ = ["BROKERS", "Nats", "RabbitMQ"]

_SCRIPTS = Path("/usr/lib/rabbitmq/bin")  # those in /usr/sbin want to be root, and change to a user of their own


class Broker(Server):
    """A server that listens on a port of the loopback only."""

    scheme: str
    port: int
    greeting = b""
    """The bytes that it needs before it answers."""

    def dial(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=5)

    def connect(self):
        """Return a socket on which it has begun to speak."""
        client = self.dial()
        client.sendall(self.greeting)
        if client.recv(1):
            return client
        client.close()
        raise ConnectionResetError("it said nothing")

    def url(self, via=None):
        """Return its address, or that of a proxy, made with `tcp=True`, which leads there."""
        return f"{self.scheme}://{via.address if via else f'127.0.0.1:{self.port}'}"


class RabbitMQ(Broker):
    """RabbitMQ, with a node name, a cookie and an epmd of its own. Everybody is guest, and may do all."""

    program, package, driver, scheme = "rabbitmq-server", "rabbitmq-server", "aiormq", "amqp"

    @classmethod
    def located(cls):
        path = _SCRIPTS / cls.program
        if not path.exists():
            raise Missing(f"{cls.program} is missing: apt-get install {cls.package}")
        return str(path)

    def initialise(self):
        self.port, self.distribution, self.epmd = reserved_ports(3)
        (self.folder / "plugins").write_text("[].\n")

    def environment(self):
        return {
            **environment(),
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.epmd),
            "RABBITMQ_ALLOW_INPUT": "1",  # the shell script becomes the server, instead of waiting for it
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_NODENAME": f"pywheel{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput",
        }

    def command(self):
        settings = {"loopback_users": "none", "heartbeat": "60", **self.settings}
        lines = [f"{name} = {value}\n" for name, value in settings.items()]
        (self.folder / "rabbitmq.conf").write_text("".join(lines))
        # The shell becomes the server, and epmd goes when that does.
        return ["/bin/sh", "-c", f"setpriv --pdeathsig KILL epmd -port {self.epmd} & exec {self.path}"]

    greeting = b"AMQP\0\0\x09\x01"

    def control(self, *arguments):
        """Run rabbitmqctl on it; return what it printed."""
        command = [_SCRIPTS / "rabbitmqctl", "--quiet", *arguments]
        done = subprocess.run(command, env=self.environment(), cwd=self.folder, capture_output=True, **nobody())
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()


class Nats(Broker):
    """NATS with JetStream; everybody may do all."""

    program, package, driver, scheme = "nats-server", "nats-server", "nats", "nats"

    def initialise(self):
        [self.port] = reserved_ports(1)
        self.data.mkdir(mode=0o700)
        self._give(self.data)

    def command(self):
        return [self.path, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.data)]


BROKERS = [RabbitMQ, Nats]
