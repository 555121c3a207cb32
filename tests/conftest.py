"""For every test: properties take the time they need, since machines are busy and cores few.

What needs more than Python, Java and make is left out of a plain `pytest`: ask for it by marker.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a marker expression, whoever runs the tests has not asked for other languages."""
    if config.option.markexpr:
        return
    aside = [item for item in items if item.get_closest_marker("clients")]
    if aside:
        config.hook.pytest_deselected(items=aside)
        items[:] = [item for item in items if item not in aside]
