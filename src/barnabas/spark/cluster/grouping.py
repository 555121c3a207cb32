"""Places as requests have them."""

from collections.abc import Iterable

from barnabas.spark.places import Place


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Partitions under their topics."""
    grouped: dict[str, list[int]] = {}
    for place in places:
        grouped.setdefault(place.topic, []).append(place.partition)
    return grouped
