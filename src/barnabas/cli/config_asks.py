"""Settings of topics and brokers, asked of whichever broker knows them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import Broker, error_name
from barnabas.cli.client import (
    REQUEST_S,
    addresses,
    admin,
    check_answers,
    errors_as_sentences,
    no_such_topic,
)
from barnabas.model.errors import BarnabasError, ErrorCode

DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_OF_TOPIC, _OF_BROKER, _OF_EVERY_BROKER, _OF_START, DEFAULT = 1, 2, 3, 4, 5
_SOURCES: Final = {
    _OF_TOPIC: "topic",
    _OF_BROKER: "broker",
    _OF_EVERY_BROKER: "all brokers",
    _OF_START: "start of the broker",
    DEFAULT: "default",
}
EVERY_BROKER: Final = "brokers"


@dataclass(frozen=True, slots=True)
class Resource:
    """Whose settings: a topic's, a broker's, or those of every broker."""

    kind: int
    name: str

    @classmethod
    def parsed(cls, text: str) -> "Resource":
        """`topic:orders`, `broker:1` or `brokers`."""
        kind, colon, name = text.partition(":")
        if kind == "topic" and name:
            return cls(_TOPIC, name)
        if kind == "broker" and name.isascii() and name.isdigit():
            return cls(_BROKER, str(int(name)))
        if text == EVERY_BROKER and not colon:
            return cls(_BROKER, "")
        raise BarnabasError(
            f"{text} names nothing that has settings: write topic:NAME, broker:ID or "
            f"{EVERY_BROKER} (what counts for every broker that is not told otherwise)."
        )

    @property
    def broker(self) -> int | None:
        """The one that has to be asked; None: any knows it."""
        return int(self.name) if self.kind == _BROKER and self.name else None

    @property
    def source(self) -> int:
        """Where a setting comes from that was set for this resource."""
        if self.kind == _TOPIC:
            return _OF_TOPIC
        return _OF_BROKER if self.name else _OF_EVERY_BROKER

    def __str__(self) -> str:
        if self.kind == _TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key as it counts now."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool

    @property
    def set_by(self) -> str:
        """In words."""
        return _SOURCES.get(self.source, str(self.source))

    def as_object(self) -> dict[str, object]:
        """For JSON."""
        return {
            "name": self.name,
            "value": self.value,
            "set_by": self.set_by,
            "read_only": self.read_only,
            "sensitive": self.sensitive,
        }


@contextmanager
def asked(bootstrap: str, resource: Resource) -> Iterator[Broker]:
    """A broker that knows the settings of a resource."""
    if resource.broker is None:
        check_answers(bootstrap)
        host, port = _first_that_answers(bootstrap)
    else:
        host, port = _address_of(bootstrap, resource.broker)
    with Broker(host, port) as broker:
        yield broker


def _first_that_answers(bootstrap: str) -> tuple[str, int]:
    for host, port in addresses(bootstrap):
        try:
            check_answers(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except BarnabasError:
            continue
        return host, port
    raise BarnabasError(f"No broker answers at {bootstrap}.")


def _address_of(bootstrap: str, number: int) -> tuple[str, int]:
    known = _brokers(bootstrap)
    found = known.get(number)
    if found is None:
        there = ", ".join(map(str, sorted(known)))
        raise BarnabasError(f"There is no broker {number}: the cluster has {there}.")
    return found.host, found.port


def _brokers(bootstrap: str) -> dict[int, Any]:
    client = admin(bootstrap)
    with errors_as_sentences():
        return client.list_topics(timeout=REQUEST_S).brokers


def check_keys(
    bootstrap: str, resource: Resource, keys: Iterable[str], *, to_change: bool = False
) -> None:
    """BarnabasError when there is no such key, or it can not be changed though it is to be."""
    # What counts for every broker lists only what somebody has set; a broker lists all there is.
    whole = resource if resource.name else Resource(_BROKER, str(min(_brokers(bootstrap))))
    with asked(bootstrap, whole) as broker:
        known = {each.name: each for each in settings_of(broker, whole)}
    for key in keys:
        if key not in known:
            kind = "topic" if whole.kind == _TOPIC else "broker"
            raise BarnabasError(
                f"There is no setting {key} of {resource}: `barnabas config describe "
                f"{kind}:{whole.name} --all` shows those there are."
            )
        if to_change and known[key].read_only:
            raise BarnabasError(
                f"{key} of {resource} can only be changed at a restart: by what the broker is "
                "started with."
            )


def settings_of(broker: Broker, resource: Resource, keys: Sequence[str] = ()) -> list[Setting]:
    """All of them, or those named, by name."""
    from kio.schema.describe_configs.v4.request import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
    )
    from kio.static.primitive import i8

    wanted = DescribeConfigsResource(
        resource_type=i8(resource.kind),
        resource_name=resource.name,
        configuration_keys=tuple(keys) or None,
    )
    request = DescribeConfigsRequest(
        resources=(wanted,), include_synonyms=False, include_documentation=False
    )
    (result,) = broker.ask(DESCRIBE_CONFIGS, request).results
    _check(resource, result)
    return sorted(
        (
            Setting(
                each.name,
                each.value,
                int(each.config_source),
                each.read_only,
                each.is_sensitive,
            )
            for each in result.configs
        ),
        key=lambda setting: setting.name,
    )


def change(
    broker: Broker, resource: Resource, changes: Mapping[str, str | None], *, check_only: bool
) -> None:
    """Set keys to values, or (None) back to what counts without them."""
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from kio.static.primitive import i8

    configs = tuple(
        AlterableConfig(
            name=name, config_operation=i8(_DELETE if value is None else _SET), value=value
        )
        for name, value in changes.items()
    )
    wanted = AlterConfigsResource(
        resource_type=i8(resource.kind), resource_name=resource.name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=(wanted,), validate_only=check_only)
    (result,) = broker.ask(INCREMENTAL_ALTER_CONFIGS, request).responses
    _check(resource, result)


def _check(resource: Resource, result: Any) -> None:
    if result.error_code is ErrorCode.none:
        return
    if result.error_code is ErrorCode.unknown_topic_or_partition:
        raise no_such_topic(resource.name)
    said = (result.error_message or "the broker refuses it").strip().rstrip(".")
    raise BarnabasError(f"{said} ({error_name(result.error_code)}).")
