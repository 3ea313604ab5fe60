"""ProxyKafka: a proxy in front of a real cluster, in the same process as the tests.

    with ProxyKafka(upstream="127.0.0.1:9092") as kafka:
        kafka.faults.add(faults.lose_ack(topic="orders", nth=4))
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

The proxy runs in a thread with an event loop of its own. Every method may be called from any thread.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from wirebroker.client.settings import BadConfig, read_access
from wirebroker.net.clock import SystemClock
from wirebroker.net.listener import Address, parse_address
from wirebroker.net.proxy_host import ProxyHost
from wirebroker.net.thread import LoopThread
from wirebroker.proxy.proxy import Proxy
from wirebroker.testing import passing
from wirebroker.testing.in_process import InProcess
from wirebroker.testing.views import Faults, TraceView

if TYPE_CHECKING:
    from wirebroker.control.server import Control
    from wirebroker.testing.metric_points import MetricPoint
    from wirebroker.testing.states import Group, Transaction

RECHECK_S = 0.01
__tracebackhide__ = True  # pytest shows the caller's line
T = TypeVar("T")


class ProxyKafka(InProcess[ProxyHost]):
    """A proxy in front of a cluster. `upstream` is the address of one of the cluster's brokers. `trace` has the same meaning as
    for MockKafka.

    If `upstream` has several addresses, separated by commas, the proxy uses the first address that it can reach. If the cluster
    is not on this machine, `faults.add` raises FaultError unless `allow_faults` is set. `configs` sets limits for clients; the
    keys are Kafka's names, such as `socket.request.max.bytes`. `client_tls` is for connections of clients, `upstream_tls` for
    connections to brokers. If `upstream_tls` has a certificate, `client_tls` must require certificates from clients
    (`verify_mode`), unless the proxy listens on loopback. The file `command_config` has client properties, as for `wirebroker
    proxy`, and replaces `upstream_tls`. `capture` is a pcapng file for Wireshark. `control` opens the HTTP control and the live
    page, at `control_url` (needs the extra control). Raises ValueError for an address that is not of the form host:port.
    """

    def __init__(
        self, *, upstream: str, listen: str = "127.0.0.1:0", trace: str = "verdicts", allow_faults: bool = False,
        random_seed: int = 0, configs: Mapping[str, object] | None = None, client_tls: ssl.SSLContext | None = None,
        upstream_tls: ssl.SSLContext | None = None, command_config: str | os.PathLike[str] | None = None,
        capture: str | os.PathLike[str] | None = None, control: bool = False,
        loop_thread: LoopThread | None = None,
    ) -> None:  # fmt: skip
        super().__init__(loop_thread, capture)
        self._upstream, self._listen = [parse_address(each.strip()) for each in upstream.split(",")], parse_address(listen)
        self._level, self._seed = trace, random_seed
        self._allow_faults = allow_faults
        self._configs = dict(configs or {})
        self._tls = client_tls, upstream_tls
        self._lends = upstream_tls is not None  # an SSL context does not reveal whether it has a certificate
        if command_config is not None:
            self._tls, self._lends = _secured(client_tls, upstream_tls, command_config)
        self._new_control: Callable[[ProxyHost], Control] | None = None
        if control:  # imported here, in the caller's thread, and only for a proxy with a control
            from wirebroker.control.server import control_of_proxy

            self._new_control = control_of_proxy
        self._address: Address = ("", 0)
        self.faults = Faults(self)
        self.trace = TraceView(self)

    def _new_host(self) -> ProxyHost:
        client_tls, upstream_tls = self._tls
        host = ProxyHost(
            SystemClock(), self._upstream, self._listen, seed=self._seed, allow_faults=self._allow_faults,
            configs=self._configs, client_tls=client_tls, upstream_tls=upstream_tls,
            lends_certificate=self._lends,
        )  # fmt: skip
        host.proxy.trace_at(self._level)
        return host

    async def _open(self, host: ProxyHost) -> None:
        """Open the first listener. The listener for another broker is opened when a response names this broker."""
        self._address = await host.start()
        if self._new_control is not None:
            self._control = self._new_control(host)
            await self._control.listen("127.0.0.1", 0)

    def __repr__(self) -> str:
        addresses = "{}:{} before ".format(*self._address) + ",".join(f"{host}:{port}" for host, port in self._upstream)
        return f"ProxyKafka({'not running' if self._host is None else addresses})"

    def _peek(self) -> Proxy | None:
        return None if self._host is None else self._host.proxy

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:PORT`."""
        self._started()
        return "{}:{}".format(*self._address)

    def wait_until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Wait until `condition()` is true. The condition is checked every 10 ms. Raises TimeoutError after `timeout`
        seconds."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(f"the condition did not come true within {timeout} s")
            time.sleep(RECHECK_S)

    def connection_count(self) -> int:
        """Returns the number of clients' connections."""
        return self._in_loop(lambda host: len(host.clients))

    def groups(self) -> dict[str, Group]:
        """Returns the groups in forwarded requests, by id. The proxy learns the lag from forwarded batches and, for a minute
        after each call, from every Fetch.
        """
        return self._change(lambda proxy, _: passing.groups(proxy))

    def transactions(self) -> dict[str, Transaction]:
        """Returns the transactional ids in forwarded requests, each with the state of its transaction."""
        return self._change(lambda proxy, _: passing.transactions(proxy))

    def metric_points(self, client_id: str | None = None, metric: str | None = None) -> list[MetricPoint]:
        """Returns the metrics that clients have pushed to brokers (KIP-714), oldest first. Needs the extra telemetry.

        Raises RuntimeError if the extra is not installed, and ValueError for a push that cannot be read.
        """
        from wirebroker.testing.metric_points import points

        return self._call(lambda proxy: points(proxy.pushes, client_id, metric))

    def _call(self, function: Callable[[Proxy], T]) -> T:
        """Call `function(proxy)` in the thread of the event loop, and perform the effects of the call."""

        def run(host: ProxyHost) -> T:
            result = function(host.proxy)
            host.flush()
            return result

        return self._in_loop(run)

    def _change(self, function: Callable[[Proxy, int], T]) -> T:
        """Call `function(proxy, now)` in the thread of the event loop, and perform the effects of the call."""
        clock = self._running.clock

        def run(proxy: Proxy) -> T:
            proxy.set_time(clock.now())
            return function(proxy, proxy.now)

        return self._call(run)

    @property
    def _fault_seed(self) -> int:
        return self._seed if self._host is None else self._call(lambda proxy: proxy.plan.seed)


def _secured(
    client_tls: ssl.SSLContext | None, upstream_tls: ssl.SSLContext | None, command_config: str | os.PathLike[str]
) -> tuple[tuple[ssl.SSLContext | None, ssl.SSLContext | None], bool]:
    """Returns two values: the SSL contexts for clients and for brokers, and whether the proxy presents a client certificate to
    brokers. Raises ValueError.
    """
    if upstream_tls is not None:
        raise ValueError("upstream_tls and command_config both say how to reach the brokers; give only one of them")
    try:
        access = read_access(os.fspath(command_config))
        return (client_tls, access.context()), bool(access.identity)
    except BadConfig as wrong:
        raise ValueError(str(wrong)) from None
