"""Reads the environment of `serve`: the variables of Kafka's images. Warns of misspelt variables of wirebroker.

The images of apache/kafka and Confluent turn each variable `KAFKA_…` into a setting, and Bitnami's image turns each variable
`KAFKA_CFG_…` into a setting. Like Kafka, `serve` ignores unknown settings. Therefore a compose file for one of these images
works with wirebroker's image.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from wirebroker.client.jaas import sections
from wirebroker.commands.listeners import old_address
from wirebroker.commands.usage import UsageError, whole
from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.setting_definitions import BROKER_SETTINGS, DEFINITIONS, PER_LISTENER

SPELLING = 0.9
"""A variable with at least this similarity (0 to 1) to a known variable counts as misspelt. A less similar variable may have
another origin. For example, Kubernetes sets WIREBROKER_SERVICE_HOST.
"""
KAFKA, BITNAMI = "KAFKA_", "KAFKA_CFG_"
READ_OTHERWISE = frozenset(
    {"process.roles", "controller.quorum.voters", "inter.broker.listener.name", "log.dirs", "heap.opts", "opts", "home",
     "version", "uri", "create.topics", "create.topics.separator", "client.users", "client.passwords"}
)  # fmt: skip
"""Variables of Kafka's images that other code handles, or that have no meaning for wirebroker."""
SECRETS = Path("/etc/kafka/secrets")
"""The images of apache/kafka and Confluent look in this folder for key and trust stores, and for files with the stores'
passwords.
"""
STORES = {
    "ssl.keystore.filename": "ssl.keystore.location", "ssl.keystore.credentials": "ssl.keystore.password",
    "ssl.key.credentials": "ssl.key.password", "ssl.truststore.filename": "ssl.truststore.location",
    "ssl.truststore.credentials": "ssl.truststore.password",
}  # fmt: skip
OLD_ADDRESS = ("advertised.host.name", "advertised.port")
"""Settings that Kafka removed in 3.0. In wirebroker, the images' variables for these settings work with every release."""
LOGIN = "sasl.jaas.config"
_FLAG = re.compile(r"--([a-z-]+)")
_LOGIN_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")


def from_environment(arguments: argparse.Namespace, environment: Mapping[str, str]) -> list[str]:
    """Read the variables of Kafka's images.

    Flags take precedence over these variables. Returns sentences about variables that have no effect.

    Raises UsageError for a value that cannot be used.
    """
    warnings = list(_misspelt(arguments, environment))
    found, unknown = _settings(environment)
    found |= _stores(found)
    found |= _logins(environment.get("KAFKA_OPTS", ""), warnings)
    for name in STORES:
        found.pop(name, None)
    _listeners(arguments, found)
    named = {text.partition("=")[0] for text in arguments.config}
    arguments.config += [f"{name}={value}" for name, value in found.items() if name not in named]
    arguments.user += _users(environment)
    arguments.topic += _topics(environment, arguments)
    if unknown:
        names = ", ".join(f"{each}{did_you_mean(_setting(each), BROKER_SETTINGS, SPELLING)}" for each in sorted(unknown))
        warnings.append(f"these variables name no setting of Kafka and have no effect: {names}")
    return warnings


def naming_variable(problem: str, arguments: argparse.Namespace) -> str:
    """`problem` is a sentence that begins with a flag. If the flag's value comes from its variable, returns the sentence with
    the variable instead of the flag. If a repeatable flag has values from the command line and from its variable, the sentence
    names the flag and the variable.
    """
    if (found := _FLAG.match(problem)) is None:
        return problem
    flag, dest = found[0], found[1].replace("-", "_")
    if dest not in (mirrored := getattr(arguments, "mirrored", {})):
        return problem
    value, given, variable = getattr(arguments, dest), mirrored[dest], f"WIREBROKER_{dest.upper()}"
    if value == given:
        return variable + problem[len(flag) :]
    return f"{flag} or {variable}{problem[len(flag) :]}" if isinstance(given, list) else problem


def _misspelt(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Iterator[str]:
    own = {f"WIREBROKER_{name.upper()}" for name in vars(arguments)}
    for variable in environment:
        if variable.startswith("WIREBROKER_") and variable not in own and (advice := did_you_mean(variable, own, SPELLING)):
            yield f"the environment variable {variable} has no effect{advice}"


def _setting(variable: str) -> str:
    """Returns the setting that a variable names. In the variable's name, `__` stands for `_`, and `___` for `-`."""
    text = variable.removeprefix(BITNAMI if variable.startswith(BITNAMI) else KAFKA).lower()
    return text.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _settings(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Returns two values: the settings in the environment, and the names of variables that name no setting. `KAFKA_X` has
    precedence over `KAFKA_CFG_X`."""
    found, unknown = {}, []
    for variable in sorted(environment, key=lambda name: not name.startswith(BITNAMI)):
        name = _setting(variable)
        if variable.startswith(KAFKA) and name not in READ_OTHERWISE:
            if DEFINITIONS.has(name) or name in STORES or name in OLD_ADDRESS:
                found[name] = environment[variable]
            else:
                unknown.append(variable)
    return found, unknown


def _listeners(arguments: argparse.Namespace, found: dict[str, str]) -> None:
    """If no flag and no variable gives a port to listen at, listen at the advertised ports, as the images do."""
    arguments.old_address = old_address({name: found.pop(name, "") for name in OLD_ADDRESS})
    advertised = found.get("advertised.listeners", "")
    if "_{" in advertised + found.get("listeners", ""):
        raise UsageError("KAFKA_ADVERTISED_LISTENERS: HOSTNAME_COMMAND and PORT_COMMAND are not supported; write the address")
    if advertised and arguments.port is None and not arguments.listener and "listeners" not in found:
        host = arguments.host or "127.0.0.1"
        found["listeners"] = re.sub(r"://(\[[^]]*\]|[^:,]*):", f"://{host}:", advertised)


def _stores(found: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for key and trust stores in the images' folder, if a listener uses TLS."""
    if "SSL://" not in found.get("advertised.listeners", "") + found.get("listeners", ""):
        return {}
    wanted = {name for name in STORES if "truststore" not in name or found.get("ssl.client.auth", "none") != "none"}
    made = {}
    for name in wanted & found.keys():
        path = SECRETS / found[name]
        try:
            made[STORES[name]] = path.read_text(encoding="utf-8").strip() if name.endswith("credentials") else str(path)
        except (OSError, ValueError) as refused:
            variable = KAFKA + name.upper().replace(".", "_")
            raise UsageError(f"{variable}: {path} cannot be read: {getattr(refused, 'strerror', refused)}") from None
    return made


def _logins(options: str, warnings: list[str]) -> dict[str, str]:
    """Returns the settings with the login modules in the JAAS file that KAFKA_OPTS names. Each setting is for all listeners, or
    for one listener.
    """
    if (named := _LOGIN_FILE.search(options)) is None:
        return {}
    try:
        told = sections(Path(named[1]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as refused:
        warnings.append(f"the file {named[1]} in KAFKA_OPTS cannot be read: {getattr(refused, 'strerror', refused)}")
        return {}
    return {
        f"{PER_LISTENER}{listener.lower()}.{LOGIN}" if listener else LOGIN: modules.strip()
        for section, modules in told.items()
        for listener, _, kind in [section.rpartition(".")]
        if kind == "KafkaServer"
    }


def _users(environment: Mapping[str, str]) -> list[str]:
    """Returns the users in the variables of Bitnami's image, as texts for --user."""
    names, passwords = (
        [each.strip() for each in environment.get(f"KAFKA_CLIENT_{what}", "").split(",") if each.strip()]
        for what in ("USERS", "PASSWORDS")
    )
    if len(names) != len(passwords):
        raise UsageError(f"KAFKA_CLIENT_USERS has {len(names)} users, but KAFKA_CLIENT_PASSWORDS has {len(passwords)}")
    return list(map("{}:{}".format, names, passwords))


def _topics(environment: Mapping[str, str], arguments: argparse.Namespace) -> list[str]:
    """Returns the topics in the variable of wurstmeister's image, as texts for --topic.

    The replicas of each topic are limited to the number of brokers.
    """
    made = []
    given = {text.partition(":")[0] for text in arguments.topic}
    for text in environment.get("KAFKA_CREATE_TOPICS", "").split(environment.get("KAFKA_CREATE_TOPICS_SEPARATOR", "") or ","):
        name, *more = text.strip().split(":")
        if not name or name in given:
            continue
        if len(more) not in (2, 3) or whole(more[0]) < 1 or whole(more[1]) < 1:
            raise UsageError(f"KAFKA_CREATE_TOPICS: {text.strip()!r} is not NAME:PARTITIONS:REPLICAS or …:CLEANUP_POLICY")
        policy = f":cleanup.policy={more[2]}" if more[2:] else ""
        made.append(f"{name}:{more[0]}:rf={min(whole(more[1]), arguments.brokers or 1)}{policy}")
    return made
