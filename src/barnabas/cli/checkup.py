"""What `barnabas doctor` looks at, one check a function."""

import datetime
import os
import resource
import socket
import sys
import time
from importlib import metadata
from typing import Final, Literal, NamedTuple

from barnabas import __version__
from barnabas.cli.client import addresses
from barnabas.cli.output import readable_size
from barnabas.link.sync import Link
from barnabas.log.names import LOCK
from barnabas.model.errors import BarnabasError, DecodeError
from barnabas.ports.files import AlreadyLockedError
from barnabas.wire.apis import API_VERSIONS
from barnabas.world.files import DiskFiles

Verdict = Literal["ok", "warning", "problem"]

_DEPENDENCIES: Final = ("kio", "crc32c", "cramjam", "uvloop", "typer", "rich", "confluent-kafka")
_DESCRIPTORS_FEW: Final = 4096
"""A partition needs a handful of files, a client one connection."""
_FREE_BYTES_FEW: Final = 1 << 30
_CLOCK_LEAST: Final = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
_CONNECT_S: Final = 3.0
_METADATA: Final = 3
_METADATA_VERSION: Final = 9
_API_VERSIONS_VERSION: Final = 3


class Finding(NamedTuple):
    """One check and what it found."""

    check: str
    verdict: Verdict
    found: str


def check_machine() -> list[Finding]:
    """Python, the libraries, Spark and its Java, descriptors and the clock."""
    libraries = [*map(_dependency, _DEPENDENCIES), _codec(), _spark()]
    return [_python(), *libraries, _descriptors(), _clock()]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("versions", "ok", f"barnabas {__version__} on Python {version}")


def _dependency(name: str) -> Finding:
    try:
        return Finding(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "problem", f"is not installed: run `pip install {name}`")


def _codec() -> Finding:
    from barnabas.wire.records.codec import COMPILED

    if COMPILED:
        return Finding("record codec", "ok", "compiled")
    return Finding(
        "record codec",
        "warning",
        "plain Python, about fifty times slower where records are looked into (log tools, "
        "compaction): install a C compiler and barnabas again",
    )


def _spark() -> Finding:
    from barnabas.spark.installation import check_installed
    from barnabas.spark.java import find_java

    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return Finding("spark", "ok", "is not installed: `pip install 'barnabas[spark]'` brings it")
    try:
        check_installed()
        java = find_java()
    except BarnabasError as error:
        return Finding("spark", "warning", str(error))
    return Finding("spark", "ok", f"{version} on Java {java.version}")


def _descriptors() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS_FEW:
        return Finding(
            "open files",
            "warning",
            f"at most {hard}: raise it with `ulimit -Hn {_DESCRIPTORS_FEW}`",
        )
    return Finding("open files", "ok", f"at most {hard}")


def _clock() -> Finding:
    now = datetime.datetime.now(datetime.UTC)
    said = now.isoformat(timespec="seconds")
    if now < _CLOCK_LEAST:
        return Finding("clock", "problem", f"{said}: retention and timestamps need a right one")
    return Finding("clock", "ok", said)


def check_data(directory: str) -> list[Finding]:
    """Is it there, may we write, is it in use, is there room? Nothing is created."""
    if not os.path.isdir(directory):
        return [_missing(directory)]
    found = [_writable(directory), _lock(directory)]
    free = DiskFiles().free_bytes(directory)
    verdict: Verdict = "ok" if free >= _FREE_BYTES_FEW else "warning"
    return [*found, Finding("free space", verdict, f"{readable_size(free)} at {directory}")]


def _missing(directory: str) -> Finding:
    parent = os.path.dirname(os.path.abspath(directory))
    if os.path.exists(directory):
        return Finding("data directory", "problem", f"{directory} is not a directory")
    while not os.path.exists(parent):
        parent = os.path.dirname(parent)
    if not os.access(parent, os.W_OK | os.X_OK):
        return Finding("data directory", "problem", f"{directory} can not be made in {parent}")
    return Finding("data directory", "ok", f"{directory} will be made at the first start")


def _writable(directory: str) -> Finding:
    if os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        return Finding("data directory", "ok", f"{directory} can be read and written")
    return Finding("data directory", "problem", f"{directory} can not be read and written")


def _lock(directory: str) -> Finding:
    path = f"{directory}/{LOCK}"
    if not os.path.exists(path):
        return Finding("lock", "ok", "no broker has used it yet")
    try:
        DiskFiles().lock(path).release()
    except AlreadyLockedError:
        return Finding("lock", "ok", "a broker is running on it")
    except PermissionError as error:
        return Finding("lock", "problem", f"{path}: {error.strerror}")
    return Finding("lock", "ok", "no broker is running on it")


def check_broker(bootstrap: str, *, expected: bool) -> list[Finding]:
    """Does one listen, speak Kafka, and tell addresses that can be reached from here?"""
    findings: list[Finding] = []
    for host, port in addresses(bootstrap):
        try:
            began = time.monotonic()
            brokers = _ask(host, port)
            took_ms = (time.monotonic() - began) * 1000
        except ConnectionRefusedError:
            findings.append(_nobody(f"{host}:{port}", expected))
        except (OSError, DecodeError) as error:
            said = str(error) or type(error).__name__
            findings.append(
                Finding("broker", "problem", f"{host}:{port} does not answer as a broker: {said}")
            )
        else:
            findings.append(Finding("broker", "ok", f"{host}:{port} answers in {took_ms:.0f} ms"))
            findings += [_advertised(*address) for address in brokers]
    return findings


def _nobody(address: str, expected: bool) -> Finding:
    if expected:
        return Finding(
            "broker", "problem", f"nobody listens at {address}: `barnabas up` starts one"
        )
    return Finding("broker", "ok", f"{address} is free: `barnabas up` can use it")


def _ask(host: str, port: int) -> list[tuple[str, int]]:
    """The addresses a broker tells its clients."""
    from kio.schema.api_versions.v4.request import ApiVersionsRequest
    from kio.schema.metadata.v13.request import MetadataRequest

    with Link(host, port, timeout_s=_CONNECT_S) as link:
        link.call(
            API_VERSIONS,
            _API_VERSIONS_VERSION,
            ApiVersionsRequest(
                client_software_name="barnabas", client_software_version=__version__
            ),
        )
        answer = link.call(
            _METADATA,
            _METADATA_VERSION,
            MetadataRequest(
                topics=(),
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            ),
        )
    return [(broker.host, broker.port) for broker in answer.brokers]


def _advertised(host: str, port: int) -> Finding:
    address = f"{host}:{port}"
    try:
        socket.create_connection((host, port), timeout=_CONNECT_S).close()
    except OSError as error:
        return Finding(
            "advertised address",
            "problem",
            f"clients are sent to {address}, which can not be reached from here "
            f"({error.strerror or error}): set advertised.listeners",
        )
    return Finding("advertised address", "ok", f"{address} can be reached")
