"""`wirebroker proxy`: a proxy in front of a cluster, in a process of its own."""

from __future__ import annotations

import argparse
import logging
import ssl
from contextlib import ExitStack
from threading import Thread

from kafkawire.errors import ProtocolError
from wirebroker.apis.loading import imports_of_proxy
from wirebroker.client.brokers import Brokers
from wirebroker.client.login import LoginFailed
from wirebroker.client.settings import Access, read_access
from wirebroker.client.stores import BadStore, load_key
from wirebroker.client.wire import ConnectionClosed, NoResponse
from wirebroker.commands.listeners import advertised_address
from wirebroker.commands.parent import watch_parent
from wirebroker.commands.serve import (
    attach_sink,
    check_sink,
    control_server,
    fault_file,
    ignore_signals,
    load_between_requests,
    log_to_stderr,
    open_control,
    print_line,
    rotation_in,
    stop_signal,
    unfired,
)
from wirebroker.commands.usage import UsageError, address_in, addresses_in, pair
from wirebroker.common.complaints import Complaint, complain
from wirebroker.faults.forms import FaultError
from wirebroker.net.clock import SystemClock
from wirebroker.net.listener import Address
from wirebroker.net.proxy_host import ProxyHost
from wirebroker.net.sockets import new_loop
from wirebroker.net.tls import ClientAuth, Tls, TlsError
from wirebroker.security.protocols import SecurityProtocol
from wirebroker.tools import tools

logger = logging.getLogger("wirebroker")

LOGIN_TIMEOUT_S = 10.0


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal stops the proxy. Returns 0, or 2 if the proxy cannot be started."""
    log_to_stderr()
    try:
        loop = new_loop(arguments.loop)
        with ExitStack() as resources:
            resources.callback(loop.close)
            return loop.run_until_complete(_serve(arguments, resources))
    except (OSError, ValueError, Complaint) as failure:
        where = f" ({failure.filename})" if isinstance(failure, OSError) and failure.filename else ""
        complain("proxy", f"{getattr(failure, 'strerror', None) or failure}{where}")
        return 2


async def _serve(arguments: argparse.Namespace, resources: ExitStack) -> int:
    upstream, listen = addresses_in(arguments.upstream, "--upstream"), address_in(arguments.listen, "--listen")
    access = upstream_access(arguments)
    for sink in arguments.trace:
        check_sink(sink)
    if arguments.require_fired and not (arguments.faults or arguments.control):
        raise UsageError("--require-fired: no fault is loaded; load faults with --faults or --control")
    faults = fault_file(arguments.faults) if arguments.faults else None
    told = arguments.advertise and advertised_address(f"{arguments.advertise}:0", "--advertise")[0]
    seeds = (arguments.random_seed, faults.seed if faults else None, 0)
    host = ProxyHost(
        SystemClock(), upstream, listen, seed=next(seed for seed in seeds if seed is not None),
        allow_faults=arguments.allow_faults, advertised_host=told,
        configs=dict(pair(text, "--config") for text in arguments.config),
        client_tls=client_tls(arguments),
        upstream_tls=access.context() if access is not None else upstream_tls(
            arguments.upstream_tls_ca, arguments.upstream_tls_cert, arguments.upstream_tls_key
        ),
        lends_certificate=arguments.upstream_tls_cert is not None or (access is not None and bool(access.identity)),
    )  # fmt: skip
    rotation = rotation_in(arguments)
    proxy = host.proxy
    proxy.trace_at(arguments.trace_level)
    for rule, place in zip(faults.rules, faults.places, strict=True) if faults else ():
        try:
            proxy.plan.add(rule)
        except FaultError as refused:
            raise UsageError(f"--faults: {place}: {refused}") from None
    control = None
    try:
        if (server := control_server(arguments)) is not None:
            control = server.control_of_proxy(host, arguments.control_allow_host)
        for sink in arguments.trace:
            attach_sink(proxy.trace, sink, rotation, resources)
        if arguments.capture:
            host.capture_to(arguments.capture, tools().open_capture(arguments.capture, rotation))
        stop = stop_signal()
        if arguments.exit_with_parent:
            watch_parent(stop)
        bound = await host.start()
        print_line(f"listening on {bound[0]}:{bound[1]}, before {','.join(f'{host}:{port}' for host, port in upstream)}")
        await open_control(control, arguments)
        print_line("ready")
        host.check()
        if access is not None and access.mechanism:
            Thread(target=_try_login, args=(access, upstream), daemon=True).start()
        await load_between_requests(imports_of_proxy(), stop)
        await stop.wait()
        ignore_signals()
    finally:
        if control is not None:
            await control.close()
        await host.close()
    return unfired(proxy.plan, "proxy") if arguments.require_fired else 0


def _try_login(access: Access, addresses: list[Address]) -> None:
    """Log in once, at the first broker that can be reached, to check the login in the flags. The proxy's clients log in with
    their own settings.
    """
    for address in map("{0[0]}:{0[1]}".format, addresses):
        try:
            Brokers(access, LOGIN_TIMEOUT_S).connect(address).close()
        except LoginFailed as failure:
            logger.warning("the login in --command-config fails at %s: %s; clients use their own login", address, failure)
            return
        except (ConnectionClosed, NoResponse, ProtocolError, OSError, ValueError):
            continue  # the proxy's own connection to this broker fails, too, and is logged
        logger.info("the broker at %s accepts the login in --command-config; clients use their own login", address)
        return


def upstream_access(arguments: argparse.Namespace) -> Access | None:
    """Returns the brokers' protocol and login from `--command-config`. Raises UsageError, BadConfig."""
    if arguments.command_config is None:
        return None
    for flag in ("upstream_tls_ca", "upstream_tls_cert", "upstream_tls_key"):
        if getattr(arguments, flag) is not None:
            raise UsageError(f"--{flag.replace('_', '-')} and --command-config both say how to reach the brokers; give one")
    return read_access(arguments.command_config)


def client_tls(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """Returns the TLS context for clients. Clients need a certificate if the flags name an authority for clients' certificates.
    Raises UsageError.
    """
    certificate, authority = arguments.tls_cert, arguments.tls_client_ca
    if certificate is None:
        return None
    wanted: ClientAuth = arguments.tls_client or ("required" if authority else "none")
    try:
        return Tls(certificate, arguments.tls_key, authority, wanted).context(SecurityProtocol.SSL)
    except TlsError as wrong:
        raise UsageError(f"--tls-cert: {wrong}") from None


def upstream_tls(authority: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Returns the TLS context for connections to the brokers. Raises UsageError."""
    if authority is None:
        return None
    for flag, file in (("ca", authority), ("cert", certificate), ("key", key)):
        if file is not None:
            _check_readable(f"--upstream-tls-{flag}", file)
    try:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=authority)
    except ssl.SSLError as wrong:
        raise UsageError(f"--upstream-tls-ca {authority}: this is not a certificate in PEM form ({wrong.reason})") from None
    if certificate is not None:
        try:
            load_key(context, certificate, key)
        except (ssl.SSLError, BadStore) as wrong:
            problem = f"certificate and key cannot be used ({getattr(wrong, 'reason', '') or wrong})"
            raise UsageError(f"--upstream-tls-cert {certificate}: {problem}") from None
    return context


def _check_readable(flag: str, file: str) -> None:
    """Raises UsageError if a file cannot be read, because OpenSSL's own error does not name the file."""
    try:
        with open(file, "rb"):
            pass
    except OSError as failure:
        raise UsageError(f"{flag} {file}: {failure.strerror}") from None
