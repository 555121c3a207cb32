"""The broker keys about the controller, and what they say together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.config import checks
from barnabas.config.keys import ConfigType, Key


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What a broker's configuration says about being the controller; the defaults are Kafka's."""

    auto_leader_rebalance: bool = True
    imbalance_check_s: int = 300


_DEFAULT: Final = ControllerSettings()

CONTROLLER_KEYS: Final = (
    Key(
        name="auto.leader.rebalance.enable",
        type=ConfigType.BOOLEAN,
        default=_DEFAULT.auto_leader_rebalance,
        doc="Whether leadership goes back to the first replicas by itself, so that a broker that "
        "was away has its share of the work again.",
    ),
    Key(
        name="leader.imbalance.check.interval.seconds",
        type=ConfigType.LONG,
        default=_DEFAULT.imbalance_check_s,
        doc="How often it is looked whether leadership should go back to the first replicas.",
        check=checks.at_least(1),
    ),
)


def read_controller_settings(values: Mapping[str, Any]) -> ControllerSettings:
    """From the effective values of all keys."""
    return ControllerSettings(
        auto_leader_rebalance=values["auto.leader.rebalance.enable"],
        imbalance_check_s=values["leader.imbalance.check.interval.seconds"],
    )
