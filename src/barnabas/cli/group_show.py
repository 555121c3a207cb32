"""What `group list` and `group describe` find, and how it looks."""

import time
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.group_brokers import GroupBrokers, Listed
from barnabas.cli.group_facts import Group, gather, shown
from barnabas.cli.group_lag import Described, describe_groups
from barnabas.cli.output import note, print_table, readable_time
from barnabas.model.errors import BarnabasError

_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Empty",
    "Dead",
)
_TYPES: Final = ("classic", "consumer", "share", "streams")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which groups to list; no state or type means every one."""

    states: list[str]
    types: list[str]

    def __post_init__(self) -> None:
        _check("state", self.states, _STATES)
        _check("type", self.types, _TYPES)

    def has(self, group: Listed) -> bool:
        """Whether the group is one of them; the case does not matter."""
        return _among(group.state, self.states) and _among(group.type, self.types)


def _check(what: str, given: list[str], known: tuple[str, ...]) -> None:
    for word in given:
        if not _among(word, list(known)):
            raise BarnabasError(f"{word!r} is no {what} of a group: use {', '.join(known)}.")


def _among(word: str, words: list[str]) -> bool:
    return not words or word.lower() in [each.lower() for each in words]


def list_groups(client: Any, bootstrap: str, wanted: Wanted, *, lag: bool) -> list[dict[str, Any]]:
    """An object for each group, by name. May raise KafkaException."""
    with GroupBrokers(client) as brokers:
        listed = [each for each in brokers.groups().values() if wanted.has(each)]
        groups = gather(listed)
    behind: dict[str, int] = {}
    if lag:
        described = describe_groups(client, bootstrap, list(groups.values()), ages=False)
        behind = {each.group.name: each.lag for each in described}
    return [
        _row(each, groups.get(each.name)) | ({"lag": behind.get(each.name)} if lag else {})
        for each in listed
    ]


def _row(listed: Listed, group: Group | None) -> dict[str, Any]:
    """The members are unknown of a group that can not be described."""
    row = {"group": listed.name, "type": listed.type.lower(), "state": listed.state}
    if group is None:
        return row | {"protocol": "", "members": None}
    return row | {
        "state": group.state,
        "protocol": group.protocol,
        "members": len(group.members),
    }


def describe_named(client: Any, bootstrap: str, names: list[str] | None) -> list[Described]:
    """The groups of these names, or all of them. May raise KafkaException."""
    with GroupBrokers(client) as brokers:
        known = brokers.groups()
        groups = gather(known.values() if names is None else [existing(known, n) for n in names])
    for name in names or ():
        if name not in groups:
            raise BarnabasError(
                f"{shown(name)} is a {known[name].type.lower()} group: only classic and consumer "
                "groups can be described."
            )
    if names is None and len(groups) < len(known):
        note(f"Left out: {len(known) - len(groups)} groups that are no consumer groups.")
    ordered = sorted(groups) if names is None else dict.fromkeys(names)
    return describe_groups(client, bootstrap, [groups[name] for name in ordered])


def existing(known: dict[str, Listed], name: str) -> Listed:
    """One of the known groups; BarnabasError when there is none of that name."""
    found = known.get(name)
    if found is None:
        raise no_such_group(name)
    return found


def no_such_group(name: str) -> BarnabasError:
    """What to do about it."""
    return BarnabasError(
        f"There is no group {shown(name)}: `barnabas group list` shows those there are; a group "
        "begins when its first consumer joins or commits."
    )


def show(described: Described) -> None:
    """Print one group for a person."""
    group = described.group
    facts = [shown(group.name), group.type, group.state]
    facts += [group.protocol] if group.protocol else []
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}")
        if group.assignment_epoch != group.epoch:
            facts.append(f"assignment of epoch {group.assignment_epoch}")
    facts.append(f"{len(group.members)} {'member' if len(group.members) == 1 else 'members'}")
    facts.append(f"lag {described.lag}")
    print("  ".join(facts))
    if group.last_rebalance is not None:
        ago = readable_age(max(0.0, time.time() - group.last_rebalance.at_ms / 1000))
        when = readable_time(group.last_rebalance.at_ms)
        print(f"last rebalance {when} ({ago} ago): {group.last_rebalance.reason}")
    if described.partitions:
        _show_partitions(described)
    idle = [member for member in group.members if not member.partitions]
    if idle:
        print_table(
            ("member without partitions", "instance", "client", "host"),
            [(each.id, each.instance_id or "-", shown(each.client_id), each.host) for each in idle],
        )


def _show_partitions(described: Described) -> None:
    noted = any(each.note for each in described.partitions)
    titles = ["topic", "partition", "committed", "end", "lag", "behind", "member", "client", "host"]
    rows = [
        [
            each.topic,
            each.partition,
            each.committed,
            each.end_offset,
            each.lag,
            "-" if each.lag_seconds is None else readable_age(each.lag_seconds),
            each.member_id or "-",
            "-" if each.client_id is None else shown(each.client_id),
            each.host or "-",
            *([each.note or ""] if noted else []),
        ]
        for each in described.partitions
    ]
    print_table([*titles, *(["note"] if noted else [])], rows)


def readable_age(seconds: float) -> str:
    """`0 s`, `12.3 s`, `5 m 10 s`, `3 h 2 m`, `4 d 6 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds else "0 s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
