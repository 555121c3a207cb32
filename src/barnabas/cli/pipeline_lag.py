"""How far the queries of a pipeline are behind, asked of the broker: their consumer groups tell."""

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.model.errors import BarnabasError


@dataclass(frozen=True, slots=True)
class Lag:
    """Of one group; None is what nobody knows."""

    records: int | None
    seconds: float | None
    """How old the oldest record is that was not read."""


def lags(servers: str, groups: Iterable[str], *, ages: bool = True) -> dict[str, Lag]:
    """The lag of every group that has committed; BarnabasError when the broker does not answer."""
    from barnabas.cli.client import admin, check_answers, errors_as_sentences
    from barnabas.cli.group_facts import Group
    from barnabas.cli.group_lag import describe_groups

    try:
        check_answers(servers)
    except BarnabasError as error:
        # Its advice is about options, and here the file says where the broker is.
        raise BarnabasError(f"No broker answers at {servers}.") from error
    # Nothing of a group but its name matters here: queries have no members in it.
    asked = [Group(name, "", "", "", None, None, None, []) for name in groups]
    with errors_as_sentences():
        found = describe_groups(admin(servers), servers, asked, ages=ages)
    return {
        each.group.name: Lag(
            each.lag, _oldest([place.lag_seconds for place in each.partitions]) if ages else None
        )
        for each in found
        if each.partitions
    }


def total(servers: str, groups: Iterable[str]) -> int | None:
    """Records behind in all; None when the broker does not answer or nothing was committed."""
    try:
        found = lags(servers, groups, ages=False)
    except BarnabasError:
        return None
    return sum(each.records or 0 for each in found.values()) if found else None


def _oldest(seconds: list[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return max(known) if known else None
