"""Running a broker in the foreground: its configuration, its log, the line that says it is ready.

Imported on the shortest road from the shell to a running broker: nothing heavy belongs here.
"""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

from barnabas import __version__
from barnabas.cli.quick import Choices
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import AT_HOME, load_broker_config
from barnabas.model.errors import BarnabasError
from barnabas.node.process import serve
from barnabas.ports.exchange import Address

_NO_KEYS: Final = ("BARNABAS_PURE", "BARNABAS_BOOTSTRAP")
"""Variables that mean something else than a broker key."""
_NO_KEYS_PREFIX: Final = "BARNABAS_TEST_"


def serve_until_stopped(choices: Choices) -> None:
    """Run a broker, or a cluster of them, until SIGINT or SIGTERM."""
    brokers = choices.brokers or 1
    if brokers > 1:
        from barnabas.cli.cluster_up import serve_cluster

        serve_cluster(choices, brokers, configuration(choices, os.environ))
        return
    if choices.ensemble is not None:
        raise BarnabasError(
            "--ensemble is of use only with --brokers: one broker needs no ZooKeeper."
        )
    logging.basicConfig(
        stream=sys.stderr,
        level=choices.log_level.upper(),
        format="%(asctime)s %(levelname)-7s %(message)s",
        datefmt="%H:%M:%S",
    )
    config = configuration(choices, os.environ)
    if choices.config is None and not choices.memory:
        _check_no_cluster(config.log_dir)
    serve(
        config,
        memory=choices.memory,
        ready=lambda address: print(ready_line(config, address, choices.memory), flush=True),
    )


def _check_no_cluster(directory: str) -> None:
    """Beside the data of a cluster one broker would begin with nothing."""
    if os.path.isdir(os.path.join(directory, "broker-1")):
        from pathlib import Path

        from barnabas.node.local_cluster import brokers_in

        count = brokers_in(Path(directory))
        raise BarnabasError(
            f"{directory} holds the data of {count} brokers: start them with --brokers {count}, or "
            "choose another directory with --data."
        )


def configuration(choices: Choices, environment: Mapping[str, str]) -> BrokerConfig:
    """File, then environment, then flags; each overrides those before it."""
    ours = {
        name: text
        for name, text in environment.items()
        if name not in _NO_KEYS and not name.startswith(_NO_KEYS_PREFIX)
    }
    name = choices.config
    return load_broker_config(
        defaults=AT_HOME if choices.config is None else None,
        toml=None if name is None else _read(name),
        toml_name=name or "",
        environment=ours,
        flags=_flags(choices),
    )


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError as error:
        raise BarnabasError(f"There is no configuration file {path}.") from error
    except UnicodeDecodeError as error:
        raise BarnabasError(f"{path} is not UTF-8 text.") from error


def _flags(choices: Choices) -> dict[str, str]:
    """What `--data`, `--host` and `--port` mean in keys, then every `--set`.

    Half an address is completed by the default, but only when somebody asked for a half: a
    listener from file or environment is not overridden by what nobody said.
    """
    flags: dict[str, str] = {}
    if choices.data is not None:
        flags["log.dirs"] = choices.data
    if choices.host is not None or choices.port is not None:
        host = choices.host or "127.0.0.1"
        port = 9092 if choices.port is None else choices.port
        flags["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    for setting in choices.settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise BarnabasError(f"--set {setting}: write it as key=value.")
        flags[key.strip()] = value
    return flags


def ready_line(config: BrokerConfig, address: Address, memory: bool) -> str:
    """Where it listens, where the data is, what is promised, how to stop it."""
    host, port = address
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    start = f"Barnabas {__version__} is ready at {where}; Ctrl-C stops it."
    if memory:
        return f"{start} Everything is in memory and ends with it."
    promise = (
        "Acknowledged records are synced to disk first (flush.messages=1)."
        if config["log.flush.interval.messages"] == 1
        else "Acknowledged records survive a crash of the broker; add "
        "--set log.flush.interval.messages=1 if they must survive a power cut."
    )
    return f"{start} Data is in {os.path.abspath(config.log_dir)}. {promise}"
