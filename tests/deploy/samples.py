"""The samples of docs/deploy as what they start: brokers with a file, an environment, arguments.

Each is worked out as systemd, Compose or Kubernetes would: variables put in, pods numbered.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

DEPLOY: Final = Path(__file__).parents[2] / "docs" / "deploy"
SYSTEMD: Final = DEPLOY / "systemd"
COMPOSE: Final = DEPLOY / "compose" / "compose.yaml"
KUBERNETES: Final = DEPLOY / "kubernetes"
PROGRAM: Final = "/opt/barnabas/bin/barnabas"
NAMESPACE: Final = "default"
CONFIG: Final = "/etc/barnabas/broker.toml"


@dataclass(frozen=True)
class BrokerSample:
    """One broker, as it would be started."""

    host: str
    """The name by which the others find its machine, container or pod."""
    arguments: list[str]
    toml: str
    environment: Mapping[str, str]


def brokers(kind: str) -> list[BrokerSample]:
    """Of `systemd`, `compose` or `kubernetes`."""
    found = {"systemd": _by_systemd, "compose": _by_compose, "kubernetes": _by_kubernetes}
    return list(found[kind]())


def zookeepers(kind: str) -> list[str]:
    """Where the ensemble of a sample answers clients, as `host:port`."""
    if kind == "systemd":
        peers = read_env(SYSTEMD / "zookeeper.env")["ZOOKEEPER_PEERS"].split(",")
        arguments = unit_arguments("barnabas-zookeeper.service", {})
        port = arguments[arguments.index("--port") + 1]
        return [f"{peer}:{port}" for peer in peers]
    if kind == "compose":
        return [f"{name}:2181" for name in compose()["services"] if name.startswith("zookeeper")]
    stateful = resource("zookeeper.yaml", "StatefulSet")
    return [f"{pod}.{stateful['spec']['serviceName']}:2181" for pod in pods(stateful)]


# systemd


def unit_arguments(unit: str, environment: Mapping[str, str]) -> list[str]:
    """What follows the program in ExecStart, with variables put in as systemd does."""
    text = (SYSTEMD / unit).read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *arguments = shlex.split(line)
    if program != PROGRAM:
        raise ValueError(f"{unit} starts {program}")
    return [
        re.sub(r"\$\{(\w+)\}", lambda name: environment.get(name[1], name[0]), each)
        for each in arguments
    ]


def read_env(path: Path) -> dict[str, str]:
    """An EnvironmentFile: `NAME=value` on each line, comments with #."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def _by_systemd() -> Iterator[BrokerSample]:
    environment = read_env(SYSTEMD / "broker.env")
    yield BrokerSample(
        host="broker1.example.net",
        arguments=unit_arguments("barnabas-broker.service", environment),
        toml=(SYSTEMD / "broker.toml").read_text(),
        environment=environment,
    )


# Compose


def compose() -> dict[str, Any]:
    """The file, its anchors resolved."""
    return dict(yaml.safe_load(COMPOSE.read_text()))


def image_command() -> list[str]:
    """What the image does when nothing else is said."""
    text = (DEPLOY / "Dockerfile").read_text()
    (words,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    return list(yaml.safe_load(words))


def _by_compose() -> Iterator[BrokerSample]:
    for name, service in compose()["services"].items():
        if name.startswith("broker"):
            (mount,) = (each for each in service["volumes"] if CONFIG in each)
            yield BrokerSample(
                host=name,
                arguments=service.get("command") or image_command(),
                toml=(COMPOSE.parent / mount.split(":")[0]).read_text(),
                environment=service["environment"],
            )


# Kubernetes


def resources(file: str) -> list[dict[str, Any]]:
    """All documents of a manifest."""
    return [dict(each) for each in yaml.safe_load_all((KUBERNETES / file).read_text())]


def resource(file: str, kind: str) -> dict[str, Any]:
    """The one resource of this kind."""
    (found,) = (each for each in resources(file) if each["kind"] == kind)
    return found


def pods(stateful: Mapping[str, Any]) -> dict[str, int]:
    """The names of its pods, and their numbers."""
    spec = stateful["spec"]
    first = spec.get("ordinals", {}).get("start", 0)
    name = stateful["metadata"]["name"]
    return {f"{name}-{number}": number for number in range(first, first + spec["replicas"])}


def pod_environment(stateful: Mapping[str, Any], pod: str, number: int) -> dict[str, str]:
    """Its variables, with fields of the pod and `$(NAME)` put in."""
    fields = {
        "metadata.name": pod,
        "metadata.namespace": NAMESPACE,
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
        # As where nodes have no zones: a label that is not there is an empty text.
        "metadata.labels['topology.kubernetes.io/zone']": "",
    }
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    found: dict[str, str] = {}
    for entry in container["env"]:
        if "value" in entry:
            value = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], entry["value"])
        else:
            value = fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        found[entry["name"]] = value
    return found


def _by_kubernetes() -> Iterator[BrokerSample]:
    stateful = resource("brokers.yaml", "StatefulSet")
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    service = stateful["spec"]["serviceName"]
    for pod, number in pods(stateful).items():
        yield BrokerSample(
            host=f"{pod}.{service}.{NAMESPACE}.svc",
            arguments=container["args"],
            toml=resource("brokers.yaml", "ConfigMap")["data"]["broker.toml"],
            environment=pod_environment(stateful, pod, number),
        )
