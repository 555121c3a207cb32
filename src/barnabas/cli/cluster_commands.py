"""`cluster balance` and `cluster drain`: a plan is made, shown or carried out, and summed up."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from barnabas.cli.brokers import NoAnswerError
from barnabas.cli.cluster_link import BROKER, ClusterLink, no_such_broker, sizes_of
from barnabas.cli.cluster_lock import OperatorLock
from barnabas.cli.cluster_moves import Moved, Mover, TakenBack, check_can_move, take_back
from barnabas.cli.cluster_orders import configure
from barnabas.cli.output import note, print_json, print_table, readable_size
from barnabas.cli.progress_line import ProgressLine
from barnabas.config.cluster_keys import CORDONED
from barnabas.model.errors import BarnabasError
from barnabas.operating.balancing import plan_balance
from barnabas.operating.draining import plan_drain
from barnabas.operating.plan import Change, layout_of
from barnabas.operating.snapshot import Place, Snapshot

_PASSES: Final = 5
"""So often a drained broker is looked at again: where it can not be cordoned, topics that are
made meanwhile may be placed on it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the operator chose."""

    bootstrap: str
    rate: int | None
    dry_run: bool
    cancel: bool
    as_json: bool


@dataclass(frozen=True, slots=True)
class _View:
    """What plans are made of."""

    snapshot: Snapshot
    racks: dict[int, str | None]
    """Brokers that are there and take replicas."""
    sizes: dict[Place, int]
    cordoned: set[int]


def _look(link: ClusterLink) -> _View:
    snapshot = link.snapshot(moves_needed=True)
    disks = link.disks(snapshot.brokers)
    cordoned = {number for number, disk in disks.items() if disk.cordoned}
    racks = {
        # One that does not tell whether it is cordoned is given nothing.
        number: facts.rack
        for number, facts in snapshot.brokers.items()
        if number in disks and number not in cordoned
    }
    return _View(snapshot, racks, sizes_of(snapshot, disks), cordoned)


def run_balance(choice: Choice, *, leaders_only: bool) -> None:
    """`cluster balance`."""
    with ClusterLink(choice.bootstrap) as link:
        if choice.cancel:
            with OperatorLock(choice.bootstrap, "balance --cancel"):
                taken = take_back(link, link.snapshot(moves_needed=True))
            _tell_taken_back(taken, choice.as_json)
            return
        if choice.dry_run:
            view = _look(link)
            _show_plan(_balanced(view, leaders_only), choice.as_json)
            return
        with OperatorLock(choice.bootstrap, "balance") as lock, ProgressLine() as progress:
            view = _look(link)
            check_can_move(link, view.snapshot)
            mover = Mover(link, choice.rate, progress, lock.check)
            with _told_what_stays("balance", choice, mover):
                mover.run(_balanced(view, leaders_only))
                mover.elect()
    _tell_moved(mover.moved, choice.as_json, {}, f"Balanced: {mover.moved.sentence()}.")


def _balanced(view: _View, leaders_only: bool) -> list[Change]:
    layout = layout_of(view.snapshot)
    return plan_balance(layout, view.racks, view.sizes, leaders_only=leaders_only)


def run_drain(choice: Choice, broker: int) -> None:
    """`cluster drain`."""
    with ClusterLink(choice.bootstrap) as link:
        if choice.cancel:
            # Also for a broker that is away and holds nothing any more: it may be cordoned.
            _give_back(link, choice, broker)
            return
        plan = _plan_of_drain(link, broker)
        if choice.dry_run:
            _show_plan(plan, choice.as_json)
            return
        with OperatorLock(choice.bootstrap, f"drain {broker}") as lock, ProgressLine() as progress:
            # Again, before the broker is cordoned: another command may have ended meanwhile, and
            # the lock may have had the topic of groups made, with replicas on every broker.
            _plan_of_drain(link, broker)
            mover = Mover(link, choice.rate, progress, lock.check)
            with _told_what_stays(f"drain {broker}", choice, mover, cordoned=broker):
                _cordon(link, broker)
                _drain(link, broker, mover)
    _tell_moved(
        mover.moved,
        choice.as_json,
        {"broker": broker},
        f"Broker {broker} is empty and gets nothing new: {mover.moved.sentence()}. Stop it for "
        f"good, or let it take part again with `barnabas cluster drain {broker} --cancel`.",
    )


def _plan_of_drain(link: ClusterLink, broker: int) -> list[Change]:
    """BarnabasError when the broker can not be drained as things are."""
    view = _look(link)
    if not _is_known(view.snapshot, broker):
        raise no_such_broker(broker)
    plan = _drained(view, broker)
    check_can_move(link, view.snapshot)
    return plan


def _is_known(snapshot: Snapshot, broker: int) -> bool:
    return broker in snapshot.brokers or broker in snapshot.dead


def _drained(view: _View, broker: int) -> list[Change]:
    return plan_drain(layout_of(view.snapshot), broker, view.racks, view.sizes)


def _drain(link: ClusterLink, broker: int, mover: Mover) -> None:
    for _ in range(_PASSES):
        view = _look(link)
        plan = _drained(view, broker)
        held = any(broker in facts.replicas for _, facts in view.snapshot.partitions())
        if not plan and not held and not view.snapshot.moving:
            mover.elect(mover.ended)
            return
        mover.run(plan)
    raise BarnabasError(
        f"Broker {broker} is given new partitions all the time: set {CORDONED}=* for it, or create "
        "no topics meanwhile, and run this again."
    )


def _give_back(link: ClusterLink, choice: Choice, broker: int) -> None:
    with OperatorLock(choice.bootstrap, f"drain {broker} --cancel"):
        snapshot = link.snapshot(moves_needed=True)
        # First: it is refused for a number that was mistyped, and then nothing is taken back.
        uncordoned = _uncordon(link, snapshot, broker)
        try:
            taken = take_back(link, snapshot)
        except BarnabasError:
            if uncordoned:
                note(f"Broker {broker} is uncordoned; its moves were not taken back.")
            raise
    _tell_taken_back(taken, choice.as_json, broker if uncordoned else None)


def _cordon(link: ClusterLink, broker: int) -> None:
    """Brokers that can not be cordoned are drained all the same, and looked at again."""
    try:
        configure(link, {(BROKER, str(broker)): {CORDONED: "*"}})
    except NoAnswerError:
        raise
    except BarnabasError as error:
        note(f"Broker {broker} may be given partitions of new topics meanwhile: {error}")


def _uncordon(link: ClusterLink, snapshot: Snapshot, broker: int) -> bool:
    """Whether it was done; brokers that do not know the key were never cordoned.

    BarnabasError when there is no such broker. One that is away and holds nothing any more is
    known to the cluster by being cordoned, so only the cluster can tell.
    """
    try:
        configure(link, {(BROKER, str(broker)): {CORDONED: None}})
    except NoAnswerError:
        raise
    except BarnabasError as error:
        if not _is_known(snapshot, broker):
            raise no_such_broker(broker) from error
        if "unknown broker config name" not in str(error).lower():
            raise
        return False
    return True


@contextmanager
def _told_what_stays(
    command: str, choice: Choice, mover: Mover, cordoned: int | None = None
) -> Iterator[None]:
    """Say what is left when somebody presses Ctrl-C, or something fails."""
    try:
        yield
    except (KeyboardInterrupt, BarnabasError):
        stays = [] if choice.rate is None else ["a throttle stays"]
        stays += [] if cordoned is None else [f"broker {cordoned} stays cordoned"]
        note(
            f"Stopped with {mover.moved.replicas} replicas moved; what has begun goes on by "
            f"itself{''.join(f', {each}' for each in stays)}: `barnabas cluster {command}` again "
            "finishes the rest, with --cancel it takes back what is still under way"
            f"{' and all of that' if stays else ''}."
        )
        raise


# What is shown.


def _show_plan(plan: list[Change], as_json: bool) -> None:
    copied = sum(each.bytes for each in plan)
    replicas = sum(len(each.adding) for each in plan)
    if as_json:
        print_json(
            {
                "moves": [
                    {
                        "topic": each.place.topic,
                        "partition": each.place.number,
                        "from": list(each.before),
                        "to": list(each.after),
                        "bytes": each.bytes,
                    }
                    for each in plan
                ],
                "replicas": replicas,
                "bytes": copied,
            }
        )
        return
    if plan:
        print_table(
            ("partition", "from", "to", "copied"),
            [
                (
                    str(each.place),
                    ",".join(map(str, each.before)),
                    ",".join(map(str, each.after)),
                    readable_size(each.bytes),
                )
                for each in plan
            ],
        )
    print(f"{len(plan)} partitions, {replicas} replicas to copy, {readable_size(copied)}.")


def _tell_moved(moved: Moved, as_json: bool, more: dict[str, Any], sentence: str) -> None:
    print_json(more | moved.as_object()) if as_json else print(sentence)


def _tell_taken_back(taken: TakenBack, as_json: bool, uncordoned: int | None = None) -> None:
    """BarnabasError when some were not."""
    if as_json:
        print_json({"taken_back": taken.count, "refused": taken.refused, "uncordoned": uncordoned})
    else:
        again = "" if uncordoned is None else f", and broker {uncordoned} is uncordoned"
        print(f"{taken.count} moves were taken back; no throttle is left{again}.")
    if taken.refused:
        raise BarnabasError(
            f"{len(taken.refused)} moves could not be taken back and go on, so run this again when "
            f"replicas have come back: {'; '.join(taken.refused)}"
        )
