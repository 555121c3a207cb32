"""What SQL does not have at hand."""

import math


def distance_km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    """The distance of two places along the surface of the earth."""
    one, two = math.radians(lat1), math.radians(lat2)
    half = (
        math.sin((two - one) / 2) ** 2
        + math.cos(one) * math.cos(two) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    )
    return 2 * 6371 * math.asin(math.sqrt(half))
