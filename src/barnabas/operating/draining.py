"""Which replicas go where so that one broker holds nothing any more."""

from collections.abc import Mapping

from barnabas.model.errors import BarnabasError
from barnabas.operating.plan import Change, Layout, plan_of
from barnabas.operating.snapshot import Place
from barnabas.operating.table import Table


def plan_drain(
    layout: Layout,
    broker: int,
    racks: Mapping[int, str | None],
    sizes: Mapping[Place, int],
) -> list[Change]:
    """Every replica of `broker` goes to one of `racks`, the brokers that may hold replicas.

    Raises BarnabasError when they are too few.
    """
    others = {each: rack for each, rack in racks.items() if each != broker}
    _check_enough(layout, broker, set(others))
    table = Table(layout, others, sizes)
    leads = dict.fromkeys(others, 0)
    for replicas in layout.values():
        if replicas and replicas[0] in leads:
            leads[replicas[0]] += 1
    # The large ones first: what is small fills the gaps they leave.
    mine = sorted(
        (place for place, replicas in layout.items() if broker in replicas),
        key=lambda place: (-table.size(place), place),
    )
    for place in mine:
        would_lead = layout[place][0] == broker
        target = min(
            (each for each in table.brokers if each not in table.layout[place]),
            key=lambda each: (
                table.shared_after(place, broker, each),
                table.count(each),
                leads[each] if would_lead else 0,
                table.bytes[each],
                each,
            ),
        )
        table.move(place, broker, target)
        leads[target] += would_lead
    return plan_of(layout, table.layout, sizes)


def _check_enough(layout: Layout, broker: int, others: set[int]) -> None:
    for place, replicas in sorted(layout.items()):
        if broker in replicas and not others - set(replicas):
            count = f"{len(replicas)} replica{'' if len(replicas) == 1 else 's'}"
            raise BarnabasError(
                f"{place} has {count}, and without broker {broker} there is no "
                "other broker left that could take its copy: add a broker first, or give the "
                "topic fewer replicas."
            )
