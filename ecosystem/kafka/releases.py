"""The requirements of each release of Apache Kafka: its artifacts, options of the JVM, and ZooKeeper before 3.3.

All releases run on Java 17.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

RELEASES = {
    each.rsplit(".", 2 if each.startswith("0.") else 1)[0]: each
    for each in (
        "0.11.0.3", "1.0.2", "1.1.1", "2.1.1", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.3.2", "3.4.1",
        "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.2", "4.1.1", "4.2.0", "4.3.1", "4.4.0",
    )
}  # fmt: skip
"""The version of Kafka that stands for each release."""
VERSION = RELEASES["4.3"]
LOG4J_2 = ("org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",)
RELOAD4J = ("ch.qos.reload4j:reload4j:1.2.25", "org.slf4j:slf4j-reload4j:1.7.36")
"""These artifacts replace log4j 1.2, and have the same classes."""
LEFT_OUT = ("log4j:log4j", "org.slf4j:slf4j-log4j12")
ZOOKEEPER = "org.apache.zookeeper:zookeeper:3.4.10"
"""The ZooKeeper for releases before 2.4. ZooKeeper 3.4.11 to 3.4.14 cannot resolve an address on Java 14 and later."""
JAXB = "javax.xml.bind:jaxb-api:2.3.1"
OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
"""Packages of java.base to which releases before 4.0 need access."""
LEVELS = Path(__file__).parent
HOST = "127.0.0.1"
PORTS = range(61_000, 65_536)
"""Ports outside the range of outgoing connections, so that a restarting broker finds its own port free."""
_given: set[int] = set()

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>kafka-jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = """<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version><exclusions>{exclusions}
  </exclusions></dependency>"""
EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class KafkaUnavailable(Exception):
    """Raised if there is no real Kafka on this machine; the text has the reason."""


def numbers(version: str) -> tuple[int, ...]:
    """Returns the parts of a version, for comparisons."""
    return tuple(int(part) for part in version.split("."))


def version_of(release: str) -> str:
    """Returns the version of Kafka that stands for a release such as "3.9". Raises KafkaUnavailable for an unknown release."""
    if release not in RELEASES:
        raise KafkaUnavailable(f"there is no release {release!r}; there are {', '.join(RELEASES)}")
    return RELEASES[release]


def has_kraft(version: str) -> bool:
    """Tells whether this version runs without ZooKeeper in production: since 3.3 (KIP-833)."""
    return numbers(version) >= (3, 3)


def in_release(settings: dict[str, str], version: str) -> dict[str, str]:
    """Returns the settings under their names in this version."""
    if "authorizer.class.name" in settings and not has_kraft(version):
        package = "kafka.security.authorizer.Acl" if numbers(version) >= (2, 4) else "kafka.security.auth.SimpleAcl"
        settings = settings | {"authorizer.class.name": f"{package}Authorizer"}
    if "delegation.token.secret.key" in settings and numbers(version) < (2, 8):
        settings = settings | {"delegation.token.master.key": settings["delegation.token.secret.key"]}
    return settings


def java_options(version: str) -> list[str]:
    """Returns the options with which a JVM runs this version and logs warnings."""
    if numbers(version) >= (4,):
        return [f"-Dlog4j2.configurationFile={LEVELS / 'log4j2.properties'}"]
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return [
        *opened,
        f"-Dlog4j.configuration=file:{LEVELS / 'log4j.properties'}",
        "-Dzookeeper.sasl.client=false",
        "-Dzookeeper.jmx.log4j.disable=true",
    ]


def free_port() -> int:
    """Returns a loopback port that is free at this moment and was not returned before. Raises KafkaUnavailable."""
    for port in random.sample(PORTS, len(PORTS)):
        if port in _given:  # a broker that was given this port may not have opened it yet
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            _given.add(port)
            return port
    raise KafkaUnavailable("no loopback port is free")


def jar_folder(version: str = VERSION) -> Path:
    """Returns the folder that keeps the jars."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wirebroker" / f"kafka-{version}-log4j"


def fetch_jars(version: str = VERSION) -> Path:
    """Returns the folder with Kafka's jars and their dependencies. The jars are fetched once. Raises KafkaUnavailable."""
    target = jar_folder(version)
    if target.is_dir():
        return target
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise KafkaUnavailable(f"a real Kafka needs `{tool}`, which is not on this machine")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        pom = Path(work, "pom.xml")
        pom.write_text(pom_of(*_artifacts(version)))
        jars = Path(work, "jars")
        command = ["mvn", "-q", "-B", "-f", str(pom), COPY, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not jars.is_dir():
            raise KafkaUnavailable(f"mvn could not fetch Kafka {version}: {(done.stdout + done.stderr).strip()[-800:]}")
        try:
            jars.rename(target)
        except OSError:
            if not target.is_dir():  # if the folder exists, another process has made it in the meantime
                raise
    return target


def fetch_jar_of(artifact: str, classifier: str, version: str = VERSION) -> Path:
    """Returns a jar that `fetch_jars` leaves out, such as the jar of Kafka's own tests. Raises KafkaUnavailable."""
    jar = jar_folder(version).with_name(f"{artifact}-{version}-{classifier}.jar")
    if not jar.is_file():
        coordinates = f"org.apache.kafka:{artifact}:{version}:jar:{classifier}"
        command = ["mvn", "-q", "-B", COPY.replace("copy-dependencies", "copy"), f"-Dartifact={coordinates}",
                   f"-DoutputDirectory={jar.parent}"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not jar.is_file():
            raise KafkaUnavailable(f"mvn could not fetch {coordinates}: {(done.stdout + done.stderr).strip()[-800:]}")
    return jar


def _artifacts(version: str) -> list[str]:
    release = numbers(version)
    scala = "2.13" if release >= (2, 4) else "2.12"
    wanted = [f"org.apache.kafka:kafka_{scala}:{version}"]
    if version == VERSION:  # other scripts use the tools of this version; 4.4.0 has no such artifact
        wanted.append(f"org.apache.kafka:kafka-tools:{version}")
    if release < (2, 4):
        wanted.append(ZOOKEEPER)
    if release < (2,):
        wanted.append(JAXB)
    return [*wanted, *(LOG4J_2 if release >= (4,) else RELOAD4J)]


def pom_of(*coordinates: str) -> str:
    """Returns a Maven project that depends on these artifacts, each `group:artifact:version`."""
    exclusions = "".join(EXCLUSION.format(*each.split(":")) for each in LEFT_OUT)
    dependencies = (DEPENDENCY.format(*each.split(":"), exclusions=exclusions) for each in coordinates)
    return POM.format(dependencies="".join(dependencies))
