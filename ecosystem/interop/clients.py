"""The clients: fetches each client's dependencies into the cache, and returns the command that runs its program."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ecosystem.kafka.releases import COPY, RELEASES, VERSION, KafkaUnavailable, fetch_jars, jar_folder, pom_of

PROGRAMS = Path(__file__).resolve().parent / "programs"
FETCH_WITHIN = 600.0
"""Each program that fetches a client's dependencies may take this many seconds."""
PYSPARK = "4.0.4"
OLD_KAFKA_PYTHON = "2.0.2"
OLD_CONFLUENT = "1.9.2"
OLD_LIBRDKAFKA = "4.3.0"
"""This version of the crate rdkafka-sys has the source of librdkafka 1.9.2."""
SPRING = "4.0.0"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


class Missing(Exception):
    """Raised if a client cannot run on this machine; the text says why."""


@dataclass(slots=True)
class Command:
    """The command that starts a client's program. The caller appends the broker's address, the prefix and the checks."""

    words: Sequence[str | Path]
    environment: dict[str, str] = field(default_factory=dict)


def cache() -> Path:
    """Returns the folder for downloads and builds."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wirebroker" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tool(name: str) -> str:
    """Returns the path of an installed program. Raises Missing."""
    found = shutil.which(name)
    if found is None:
        raise Missing(f"it needs `{name}`, which is not on this machine")
    return found


def call(words: Sequence[str | Path], folder: Path, doing: str) -> str:
    """Runs a program and returns its output. Raises Missing with the end of the output if the program fails."""
    command = [str(word) for word in words]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        raise Missing(f"{doing} took longer than {FETCH_WITHIN:.0f} s") from None
    if done.returncode:
        last = " ".join((done.stderr or done.stdout).split())[-300:]
        raise Missing(f"{doing} failed: {last}")
    return done.stdout


def node_folder() -> Path:
    """Returns the folder with the npm packages of the lock file."""
    lock = (PROGRAMS / "node" / "package-lock.json").read_bytes()
    return cache() / f"node-{hashlib.sha256(lock).hexdigest()[:12]}"


def streams_folder() -> Path:
    """Returns the folder with the jars of Kafka Streams."""
    return cache() / f"kafka-streams-{VERSION}"


def spring_folder() -> Path:
    """Returns the folder with the jars of Spring for Apache Kafka."""
    return cache() / f"spring-kafka-{SPRING}"


def fetched(client: str) -> bool:
    """Tells whether all dependencies of the client are in the cache or in this environment."""
    needed = {
        "java": jar_folder(), "kafka-streams": streams_folder(), "franz-go": cache() / "franz", "sarama": cache() / "sarama",
        "kafkajs": node_folder() / "node_modules" / "kafkajs", "kcat": Path(shutil.which("kcat") or cache() / "kcat"),
        "pyspark": cache() / f"pyspark-{PYSPARK}" / "complete", "spring": spring_folder(),
    }  # fmt: skip
    return client not in needed or needed[client].exists()


def python(module: str, program: str) -> Callable[[], Command]:
    """Returns a client that is a Python package of this environment."""

    def prepare() -> Command:
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            raise Missing(f"the Python package {module} is not in this environment")
        return Command([sys.executable, PROGRAMS / "python" / f"{program}.py"])

    return prepare


def java(version: str = VERSION, program: str = "Interop") -> Command:
    """Returns Kafka's own client, from the jars of a real Kafka."""
    tool("java")
    try:
        jars = fetch_jars(version)
    except KafkaUnavailable as error:
        raise Missing(str(error)) from None
    options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Command(["java", *options, "-cp", f"{jars}/*", PROGRAMS / "java" / f"{program}.java"])


def old_java(version: str) -> Callable[[], Command]:
    """Returns the Java client of an earlier release. Its program uses only those features that all releases have."""
    return partial(java, version, "OldInterop")


def old_kafka_python(pinned: str = "") -> Command:
    """Returns kafka-python of 2020, in its own environment. `pinned` is "yes" to use the API versions of Kafka 0.8.2 to
    0.11."""
    interpreter = environment_of("kafka-python", OLD_KAFKA_PYTHON)
    return Command([interpreter, PROGRAMS / "python" / "old_kafka_python.py"], {"PYTHONPATH": "", "PINNED": pinned})


def old_confluent() -> Command:
    """Returns confluent-kafka of 2022 on librdkafka of the same version. This release has no wheel for Python 3.11, so both are
    compiled."""
    for name in ("make", "gcc"):
        tool(name)
    folder = cache() / f"librdkafka-{OLD_CONFLUENT}"
    if not (folder / "complete").exists():
        source = crate("rdkafka-sys", OLD_LIBRDKAFKA, folder) / "librdkafka"
        options = ["--disable-curl", "--disable-optimization", f"--prefix={folder}"]  # this compiles in half the time
        call(["./configure", *options], source, "librdkafka's configure")
        for goals in ([f"-j{os.cpu_count() or 1}", "lib"], ["install"]):
            call(["make", "-C", "src", *goals], source, "making librdkafka")
        shutil.rmtree(folder / "source")
        (folder / "complete").touch()
    paths = {"C_INCLUDE_PATH": "include", "LIBRARY_PATH": "lib", "LD_LIBRARY_PATH": "lib"}
    environment = {name: str(folder / part) for name, part in paths.items()}
    interpreter = environment_of("confluent-kafka", OLD_CONFLUENT, environment)
    return Command([interpreter, PROGRAMS / "python" / "client_confluent.py"], environment | {"PYTHONPATH": ""})


def crate(name: str, version: str, folder: Path) -> Path:
    """Returns the source of a crate of crates.io, in a new folder. Raises Missing."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "lib.rs").touch()
    (folder / "Cargo.toml").write_text(f'[package]\nname = "fetch"\n[dependencies]\n{name} = "={version}"\n')
    told = call([tool("cargo"), "metadata", "--format-version", "1", "--quiet"], folder, "`cargo metadata`")
    (manifest,) = (each["manifest_path"] for each in json.loads(told)["packages"] if each["name"] == name)
    return shutil.copytree(Path(manifest).parent, folder / "source")


def environment_of(package: str, version: str, compiled_with: Mapping[str, str] | None = None) -> Path:
    """Returns the interpreter of an environment that has this package. With `compiled_with`, the package is not installed from
    a wheel, but compiled with these environment variables. Raises Missing.
    """
    folder = cache() / f"{package}-{version}"
    if not (folder / "complete").exists():
        call([sys.executable, "-m", "venv", "--clear", folder], cache(), "making an environment")
        given = [] if compiled_with is None else ["env", *(f"{name}={value}" for name, value in compiled_with.items())]
        own = [] if compiled_with is None else ["--no-binary", package]
        install = [*given, folder / "bin" / "python", "-m", "pip", "install", "-q", *own, f"{package}=={version}"]
        call(install, cache(), f"`pip install {package}`")
        (folder / "complete").touch()
    return folder / "bin" / "python"


def jars_of(folder: Path, group: str, name: str, version: str) -> Path:
    """Returns a folder with the jars of a Maven artifact and its dependencies. Raises Missing."""
    if not folder.is_dir():
        making = cache() / f"{folder.name}.{os.getpid()}"
        making.mkdir()
        try:
            (making / "pom.xml").write_text(pom_of(f"{group}:{name}:{version}"))
            copy = [tool("mvn"), "-q", "-B", COPY, "-DincludeScope=runtime", "-DoutputDirectory=jars"]
            call(copy, making, f"fetching {name} with mvn")
            (making / "jars").rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def kafka_streams() -> Command:
    """Returns Kafka Streams with its dependencies, beside the jars of a real Kafka."""
    command, folder = java(), jars_of(streams_folder(), "org.apache.kafka", "kafka-streams", VERSION)
    *words, _, program = command.words
    return Command([*words, f"{folder}/*{os.pathsep}{jar_folder()}/*", Path(program).with_name("Streams.java")])


def spring_service() -> Command:
    """Returns a service of Spring for Apache Kafka, with the Kafka client that Spring depends on."""
    folder = jars_of(spring_folder(), "org.springframework.kafka", "spring-kafka", SPRING)
    options = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return Command([tool("java"), *options, "-cp", f"{folder}/*", PROGRAMS / "java" / "SpringService.java"])


def go(program: str) -> Callable[[], Command]:
    """Returns a client of the Go module; Go has its own caches for modules and builds."""

    def prepare() -> Command:
        binary = cache() / program
        call([tool("go"), "build", "-o", binary, f"./{program}"], PROGRAMS / "go", f"`go build ./{program}`")
        return Command([binary])

    return prepare


def kafkajs() -> Command:
    """Installs the npm package in a folder named after the lock file, and copies the program into that folder."""
    node, npm, source, folder = tool("node"), tool("npm"), PROGRAMS / "node", node_folder()
    folder.mkdir(exist_ok=True)
    for file in source.glob("*.js*"):
        shutil.copy(file, folder)
    if not (folder / "node_modules" / "kafkajs").is_dir():
        call([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, "`npm ci`")
    return Command([node, folder / "kafkajs.js"])


def kcat() -> Command:
    """Returns the installed kcat. If kcat is not installed, unpacks Debian's package of kcat, and returns the kcat in it."""
    command = Command([sys.executable, PROGRAMS / "python" / "client_kcat.py"])
    if shutil.which("kcat"):
        return command
    for name in ("apt-get", "dpkg"):
        if shutil.which(name) is None:
            raise Missing(f"it needs `kcat`, which is not on this machine, and `{name}`, which could fetch it, is missing, too")
    folder = cache() / "kcat"
    if not folder.is_dir():
        making = cache() / f"kcat.{os.getpid()}"
        making.mkdir()
        try:
            # apt names kcat and each package that kcat needs and that is not installed.
            wanted = call(["apt-get", "install", "--print-uris", "-qq", "kcat"], making, "`apt-get install kcat`")
            packages = [line.split()[1].split("_")[0] for line in wanted.splitlines() if line.startswith("'")]
            call(["apt-get", "download", "-qq", *packages], making, f"`apt-get download {' '.join(packages)}`")
            for package in making.glob("*.deb"):
                call(["dpkg", "-x", package, making], making, f"unpacking {package.name}")
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    libraries = ":".join(str(library) for library in (folder / "usr/lib").iterdir() if library.is_dir())
    command.environment |= {"KCAT": str(folder / "usr/bin/kcat"), "LD_LIBRARY_PATH": libraries}
    return command


def pyspark() -> Command:
    """Returns PySpark in an environment of its own. When Spark starts, it fetches the jars of the connector itself."""
    tool("java")
    interpreter = str(environment_of("pyspark", PYSPARK))
    environment = {"CONNECTOR": CONNECTOR, "IVY": str(cache() / "ivy"), "PYSPARK_PYTHON": interpreter, "PYTHONPATH": ""}
    return Command([interpreter, PROGRAMS / "python" / "client_pyspark.py"], environment)


CLIENTS: dict[str, Callable[[], Command]] = {
    "kafka-python": python("kafka", "client_kafka_python"),
    "aiokafka": python("aiokafka", "client_aiokafka"),
    "confluent-kafka": python("confluent_kafka", "client_confluent"),
    "java": java,
    "kafka-streams": kafka_streams,
    "franz-go": go("franz"),
    "sarama": go("sarama"),
    "kafkajs": kafkajs,
    "kcat": kcat,
    "pyspark": pyspark,
}
"""Each function fetches its client's dependencies and returns its command, or raises Missing."""
OTHERS: dict[str, Callable[[], Command]] = {
    **{f"java-{release}": old_java(RELEASES[release]) for release in ("0.11", "1.1", "2.8", "3.9")},
    "java-4.4": partial(java, RELEASES["4.4"]),
    f"kafka-python-{OLD_KAFKA_PYTHON}": old_kafka_python,
    f"kafka-python-{OLD_KAFKA_PYTHON}-pinned": partial(old_kafka_python, "yes"),
    f"confluent-kafka-{OLD_CONFLUENT}": old_confluent,
}
"""Clients of other releases. They run only if --clients names them."""


def serving(prepare: Callable[[], Command], program: str, *before: str) -> Callable[[], Command]:
    """Returns a function that prepares a client's service. The service's file is in the same folder as the client's program."""

    def prepared() -> Command:
        command = prepare()
        *words, of_client = command.words
        return Command([*words, Path(of_client).with_name(program), *before], command.environment)

    return prepared


SERVICES: dict[str, Callable[[], Command]] = {
    "kafka-python": serving(CLIENTS["kafka-python"], "service.py", "kafka-python"),
    "aiokafka": serving(CLIENTS["aiokafka"], "service.py", "aiokafka"),
    "confluent-kafka": serving(CLIENTS["confluent-kafka"], "service.py", "confluent-kafka"),
    "java": serving(java, "Service.java"),
    "spring": spring_service,
    "franz-go": go("service"),
    "kafkajs": serving(kafkajs, "service.js"),
}
"""Services that keep running. Each function prepares the service of a client, as in `CLIENTS`. For each record of `orders` the
service produces a record to `results`.
"""
