"""Places as requests and sentences have them."""

from collections.abc import Iterable

from barnabas.spark.places import Place

_NAMED_MAX = 3


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Partitions under their topics."""
    grouped: dict[str, list[int]] = {}
    for place in places:
        grouped.setdefault(place.topic, []).append(place.partition)
    return grouped


def listed(places: Iterable[Place]) -> str:
    """The first few by name, the others by number."""
    names = [str(place) for place in places]
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
