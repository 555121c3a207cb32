"""The samples in docs/deploy fit together, and fit Barnabas."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from tests.deploy.samples import (
    CONFIG,
    DEPLOY,
    SYSTEMD,
    BrokerSample,
    brokers,
    compose,
    pod_environment,
    pods,
    read_env,
    resource,
    resources,
    unit_arguments,
    zookeepers,
)

from barnabas.cli import quick
from barnabas.cli.app import app
from barnabas.cli.serving import configuration
from barnabas.config.broker_config import BrokerConfig
from barnabas.world.zookeeper_member import read_peers

KINDS = ("systemd", "compose", "kubernetes")
GUIDE = DEPLOY / "README.md"
DATA = "/var/lib/barnabas"


def parsed(arguments: list[str]) -> None:
    """Raises what the command line itself would say of wrong arguments; runs nothing."""
    command: Any = typer.main.get_command(app)
    name = "barnabas"
    while hasattr(command, "commands"):
        name, *arguments = arguments
        command = command.commands[name]
    command.make_context(name, list(arguments))


def loaded(sample: BrokerSample, folder: Path) -> BrokerConfig:
    """The configuration that this broker would start with."""
    choices = quick.parse(sample.arguments)
    assert choices is not None, sample.arguments
    assert choices.config == CONFIG
    file = folder / f"{sample.host}.toml"
    file.write_text(sample.toml)
    choices.config = str(file)
    return configuration(choices, sample.environment)


@pytest.mark.parametrize("kind", KINDS)
def test_every_broker_of_a_sample_has_a_configuration_that_barnabas_takes(
    kind: str, tmp_path: Path
) -> None:
    ids = set()
    for sample in brokers(kind):
        parsed(sample.arguments)
        config = loaded(sample, tmp_path)
        ids.add(config.node_id)
        assert config.log_dir.startswith(f"{DATA}/"), "below what is kept"
        (told,) = config.advertised_listeners
        assert (told.host, told.port) == (sample.host, config.listeners[0].port)
        connect, _, path = str(config.cluster.zookeeper_connect).partition("/")
        assert connect.split(",") == zookeepers(kind)
        assert path == "barnabas"
        assert config["default.replication.factor"] == 3
        assert config["min.insync.replicas"] == 2
    assert len(ids) == len(brokers(kind)) == (1 if kind == "systemd" else 3)


@pytest.mark.parametrize("kind", KINDS)
def test_probes_ask_where_the_broker_tells_its_health(kind: str, tmp_path: Path) -> None:
    listener = loaded(brokers(kind)[0], tmp_path).health_listener
    assert listener is not None
    host, port = listener
    if kind == "compose":
        for name in (sample.host for sample in brokers(kind)):
            asked = compose()["services"][name]["healthcheck"]["test"][-1]
            assert f"'http://{host}:{port}/health/ready'" in asked
    if kind == "kubernetes":
        assert host == "0.0.0.0", "or no kubelet could ask"
        (container,) = resource("brokers.yaml", "StatefulSet")["spec"]["template"]["spec"][
            "containers"
        ]
        assert {"name": "health", "containerPort": port} in container["ports"]
        probes = {"livenessProbe": "/health/live", "readinessProbe": "/health/ready"}
        for probe, path in probes.items():
            assert container[probe]["httpGet"] == {"path": path, "port": "health"}


def test_the_unit_of_zookeeper_starts_one_server_of_its_peers() -> None:
    environment = read_env(SYSTEMD / "zookeeper.env")
    arguments = unit_arguments("barnabas-zookeeper.service", environment)
    assert not [each for each in arguments if "$" in each], "a variable that zookeeper.env lacks"
    parsed(arguments)
    assert len(read_peers(environment["ZOOKEEPER_PEERS"])) == 3
    assert 1 <= int(environment["ZOOKEEPER_SERVER"]) <= 3


@pytest.mark.parametrize("unit", ["barnabas-broker", "barnabas-zookeeper"])
def test_a_unit_may_write_where_its_data_is(unit: str) -> None:
    text = (SYSTEMD / f"{unit}.service").read_text()
    (state,) = re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)
    kept = f"/var/lib/{state}"
    where = (SYSTEMD / "broker.toml").read_text() if unit == "barnabas-broker" else text
    assert f'"{kept}/' in where or f"--data {kept}" in where


def test_the_parts_of_the_compose_file_name_each_other_rightly() -> None:
    services, volumes = compose()["services"], compose()["volumes"]
    ensemble = [name for name in services if name.startswith("zookeeper")]
    used = []
    for name, service in services.items():
        mounts = [each.split(":")[0] for each in service["volumes"]]
        used += [each for each in mounts if not each.startswith("./")]
        if name in ensemble:
            environment = service["environment"]
            servers = re.findall(
                r"server\.(\d)=([\w-]+):2888:3888;2181", environment["ZOO_SERVERS"]
            )
            assert [host for _, host in servers] == ensemble
            assert (environment["ZOO_MY_ID"], name) in servers
        else:
            assert [*service["depends_on"]] == ensemble
            assert any(f":{DATA}" in each for each in service["volumes"])
    assert sorted(used) == sorted(volumes), "each volume is of one service"


def test_the_servers_of_kubernetes_know_each_other() -> None:
    stateful = resource("zookeeper.yaml", "StatefulSet")
    service = stateful["spec"]["serviceName"]
    for pod, number in pods(stateful).items():
        environment = pod_environment(stateful, pod, number)
        assert environment["ZOO_MY_ID"] == str(number)
        assert f"server.{number}={pod}.{service}:2888:3888;2181" in environment["ZOO_SERVERS"]


@pytest.mark.parametrize("file", ["brokers.yaml", "zookeeper.yaml"])
def test_selectors_services_and_ports_of_the_manifests_meet(file: str) -> None:
    stateful = resource(file, "StatefulSet")
    spec = stateful["spec"]
    template = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    (container,) = template["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    services = [each for each in resources(file) if each["kind"] == "Service"]
    headless = [each for each in services if each["spec"].get("clusterIP") == "None"]
    assert [each["metadata"]["name"] for each in headless] == [spec["serviceName"]]
    for each in services:
        assert each["spec"]["selector"] == labels == spec["selector"]["matchLabels"]
        for port in each["spec"]["ports"]:
            assert ports[port.get("targetPort", port["name"])] == port["port"]
    budget = resource(file, "PodDisruptionBudget")["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert budget["maxUnavailable"] == 1
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container.get(probe, {})
        for way in ("tcpSocket", "httpGet"):
            assert asked.get(way, {"port": "*"})["port"] in {*ports, "*"}
    claims = {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
    known = claims | {each["name"] for each in template.get("volumes", ())}
    assert {each["name"] for each in container["volumeMounts"]} == known


def test_every_command_in_the_guide_parses() -> None:
    blocks = re.findall(r"^```console\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    begins = re.compile(r"(?:^|\| |exec [\w-]+ (?:-- )?)barnabas (.+)")
    commands = [found[1] for line in lines if (found := begins.search(line))]
    assert len(commands) > 5
    for words in commands:
        parsed(shlex.split(words, comments=True))


def test_every_file_is_in_the_guide() -> None:
    text = GUIDE.read_text()
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path != GUIDE:
            assert path.name in text, path.name
