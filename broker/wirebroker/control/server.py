"""The control's server: uvicorn's HTTP protocol on the event loop of the broker, without `uvicorn.Server`.

`uvicorn.Server` would install signal handlers, poll, and take a tenth of a second to stop.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from kafkawire.extras import how_to_install
from wirebroker.control.controlled import ControlledBroker, ControlledProxy, Readable
from wirebroker.control.endpoint import Endpoint
from wirebroker.control.hosts import Hosts
from wirebroker.control.problems import Problem
from wirebroker.control.table import endpoints_of
from wirebroker.engine.engine import Engine
from wirebroker.net.forks import give_up_in_children
from wirebroker.net.host import Host
from wirebroker.net.proxy_host import ProxyHost
from wirebroker.net.sockets import open_server, start_serving, stop_listening
from wirebroker.tools import installed_tools

try:
    import h11
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

    from wirebroker.control.app import app, problem_response
except ImportError as missing:
    raise ImportError(
        f"the HTTP control needs more packages ({missing}); {how_to_install('control')}", name=missing.name
    ) from missing

logger = logging.getLogger("wirebroker")

IDLE_S = 3600
"""The control keeps an idle connection for this many seconds. HTTP clients keep an idle connection for at most 1200 s (Java
before JDK 20). If the control closed the connection first, a POST that a client sends at that moment would fail."""
LAST_RESPONSES_S = 1
"""When the control stops, it waits this many seconds for clients to read their last responses."""


def control_of_broker(host: Host, new_engine: Callable[[], Engine], allow_hosts: Iterable[str] = ()) -> Control:
    """Returns the HTTP control of a broker; `new_engine` makes the engine for a reset."""
    return Control(ControlledBroker(host, new_engine), endpoints_of("broker"), allow_hosts)


def control_of_proxy(host: ProxyHost, allow_hosts: Iterable[str] = ()) -> Control:
    """Returns the HTTP control of a proxy."""
    return Control(ControlledProxy(host), endpoints_of("proxy"), allow_hosts)


class Control:
    """The HTTP control of a broker or a proxy, or the live page of a file.

    The class is not thread-safe: use it on its event loop.

    `allow_hosts` are further host names under which the control responds.
    """

    def __init__(self, controlled: Readable, endpoints: tuple[Endpoint, ...], allow_hosts: Iterable[str] = ()) -> None:
        self._controlled = controlled
        self._hosts = Hosts(allow_hosts)
        live_page = tools.live_page() if (tools := installed_tools()) is not None else ()
        self._config = Config(
            app(controlled, endpoints, self._hosts, live_page), http=_Protocol, ws="none", lifespan="off", loop="none",
            log_config=None, proxy_headers=False, server_header=False, timeout_keep_alive=IDLE_S,
        )  # fmt: skip
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self.url = ""
        self.open_to_others = False
        """Tells whether the control also listens on addresses other than loopback."""
        give_up_in_children(self)

    def descriptors(self) -> Iterator[int]:
        """Yields the file descriptors of the listener and of all connections."""
        if self._server is not None:
            yield from (each.fileno() for each in self._server.sockets)
        for connection in self._state.connections:
            yield connection.transport.get_extra_info("socket").fileno()

    async def listen(self, host: str, port: int) -> None:
        """Start to listen, and set `url`. Raises ListenError."""
        self._server, port = await open_server(lambda: _Protocol(self._config, self._state, {}), host, port, " for the control")
        self._controlled.begin()
        self._hosts.add(host)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        addresses = [each.getsockname()[0] for each in self._server.sockets]
        self.open_to_others = not all(ipaddress.ip_address(address).is_loopback for address in addresses)
        await start_serving(self._server, " for the control")

    async def close(self) -> None:
        """Close the listener and all connections. Waiting requests get 503."""
        if self._server is not None:
            await stop_listening([self._server])
        self._controlled.close()
        await self._responses_sent()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._responses_sent()  # this ends the responses that clients read too slowly

    async def _responses_sent(self) -> None:
        """Wait a short time for the responses that are being sent."""
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=LAST_RESPONSES_S)


@lru_cache
def _log_kafka_client(client: str, host: str, port: int | None) -> None:
    advice = "Kafka clients connect to an address after 'listening on'"
    logger.warning("a Kafka client on %s connects to %s:%s, which is the HTTP control; %s", client, host, port, advice)


class _Protocol(H11Protocol):
    """uvicorn's protocol without its access log."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.access_log = False

    def data_received(self, data: bytes) -> None:
        """Read HTTP.

        Refuse a Kafka client, and log the refusal only once, because such a client tries again and again. A Kafka client's
        request begins with a size below 16 MiB, so its first byte is 0.
        """
        if self.scope is None and data[:1] == b"\0":
            host = self.client[0] if self.client else "another process"
            _log_kafka_client(host, *(self.server or ("", 0)))
            self.send_400_response("This is the HTTP control and not a Kafka broker.")
        else:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Respond with a problem document, as everywhere else. uvicorn's own response is a text."""
        problem = problem_response(Problem(400, msg), {"connection": "close"})
        head = h11.Response(status_code=problem.status_code, headers=problem.raw_headers, reason=b"Bad Request")
        for part in (head, h11.Data(data=bytes(problem.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(part))
        self.transport.close()

    def _should_upgrade(self) -> bool:
        """Always returns False. uvicorn's own method would log a warning about Java's HTTP client, which offers HTTP/2, but
        also accepts 1.1."""
        return False
