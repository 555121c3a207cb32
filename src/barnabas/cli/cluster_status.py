"""What `barnabas cluster status` shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.cluster_link import ClusterLink, Disk, sizes_of
from barnabas.cli.output import readable_size, table
from barnabas.operating.health import Health, health_of, is_short
from barnabas.operating.snapshot import NOBODY, Place, Snapshot

_NAMED: Final = 5
"""So many partitions are named in a line for people; JSON has them all."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker, registered or missed."""

    id: int
    address: str | None
    rack: str | None
    alive: bool
    leads: int
    replicas: int
    bytes: int | None
    under_replicated: int
    """Replicas of it that are not in sync."""
    cordoned: bool


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A partition on its way, and how much of it is there."""

    place: Place
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied: int
    total: int


@dataclass(frozen=True, slots=True)
class Status:
    """All of it."""

    snapshot: Snapshot
    health: Health
    brokers: list[BrokerRow]
    moves: list[MoveRow]

    @property
    def is_good(self) -> bool:
        """Whether there is nothing to mend."""
        return self.health.is_good and self.snapshot.controller != NOBODY

    def as_object(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "cluster_id": self.snapshot.cluster_id,
            "healthy": self.is_good,
            "controller": None if self.snapshot.controller == NOBODY else self.snapshot.controller,
            "topics": len(self.snapshot.topics),
            "partitions": sum(1 for _ in self.snapshot.partitions()),
            "brokers": [
                {name: getattr(each, name) for name in BrokerRow.__slots__} for each in self.brokers
            ],
            "offline": list(map(str, self.health.without_leader)),
            "under_min_isr": list(map(str, self.health.under_min_isr)),
            "under_replicated": list(map(str, self.health.under_replicated)),
            "moves_known": self.snapshot.moves_known,
            "moves": [
                {
                    "topic": each.place.topic,
                    "partition": each.place.number,
                    "adding": list(each.adding),
                    "removing": list(each.removing),
                    "copied_bytes": each.copied,
                    "total_bytes": each.total,
                }
                for each in self.moves
            ],
        }


def gather(link: ClusterLink) -> Status:
    """Ask for everything."""
    snapshot = link.snapshot()
    disks = link.disks(snapshot.brokers)
    health = health_of(snapshot, link.min_isr(snapshot.topics))
    return Status(snapshot, health, _brokers(snapshot, disks), moves_of(snapshot, disks))


def _brokers(snapshot: Snapshot, disks: Mapping[int, Disk]) -> list[BrokerRow]:
    rows = []
    for number in sorted({*snapshot.brokers, *snapshot.dead}):
        facts, disk = snapshot.brokers.get(number), disks.get(number)
        held = [(p, each) for p, each in snapshot.partitions() if number in each.replicas]
        rows.append(
            BrokerRow(
                id=number,
                address=facts.address if facts else None,
                rack=facts.rack if facts else None,
                alive=facts is not None,
                leads=sum(each.leader == number for _, each in held),
                replicas=len(held),
                # Files of replicas that were moved away are still there for a while.
                bytes=sum(disk.sizes.get(place, 0) for place, _ in held) if disk else None,
                under_replicated=sum(
                    number not in each.isr and is_short(each, snapshot, place)
                    for place, each in held
                ),
                cordoned=disk.cordoned if disk else False,
            )
        )
    return rows


def moves_of(snapshot: Snapshot, disks: Mapping[int, Disk]) -> list[MoveRow]:
    """Every move in flight."""
    sizes = sizes_of(snapshot, disks)
    rows = []
    for place, moving in sorted(snapshot.moving.items()):
        size = sizes.get(place, 0)
        # A replica can be ahead of what its leader has told the disk: it is not more than all.
        there = (
            min(disks[each].sizes.get(place, 0), size) for each in moving.adding if each in disks
        )
        rows.append(
            MoveRow(place, moving.adding, moving.removing, sum(there), size * len(moving.adding))
        )
    return rows


def lines(status: Status) -> str:
    """For people."""
    snapshot, health = status.snapshot, status.health
    who = "nobody" if snapshot.controller == NOBODY else f"broker {snapshot.controller}"
    count = sum(1 for _ in snapshot.partitions())
    head = f"cluster {snapshot.cluster_id}  controller {who}"
    found = [
        f"{head}  {len(snapshot.topics)} topics  {count} partitions",
        table(
            ("broker", "address", "rack", "state", "leads", "replicas", "bytes", "not in sync"),
            [_row(each) for each in status.brokers],
        ),
    ]
    for what, places in (
        ("offline (nobody leads)", health.without_leader),
        ("under min.insync.replicas", health.under_min_isr),
        ("under-replicated", health.under_replicated),
    ):
        if places:
            found.append(f"{len(places)} {what}: {_named(places)}")
    found += [_move(each) for each in status.moves]
    if not snapshot.moves_known:
        found.append("moves are not known: no controller answers")
    found.append("healthy" if status.is_good else "not healthy")
    return "\n".join(found)


def _row(row: BrokerRow) -> tuple[object, ...]:
    state = ("cordoned" if row.cordoned else "alive") if row.alive else "dead"
    size = None if row.bytes is None else readable_size(row.bytes)
    return (
        row.id, row.address, row.rack, state, row.leads, row.replicas, size, row.under_replicated
    )  # fmt: skip


def _named(places: list[Place]) -> str:
    more = len(places) - _NAMED
    return ", ".join(map(str, places[:_NAMED])) + (f" and {more} more" if more > 0 else "")


def _move(move: MoveRow) -> str:
    done = f"{100 * move.copied // move.total} %" if move.total else "-"
    to, away = (",".join(map(str, each)) or "nobody" for each in (move.adding, move.removing))
    return (
        f"moving {move.place} to {to}, away from {away}: {readable_size(move.copied)} of "
        f"{readable_size(move.total)} ({done})"
    )
