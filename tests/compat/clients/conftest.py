"""Keeps the suites that need more than Python out of a plain `pytest`: ask for them by marker."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a marker expression, whoever runs the tests has not asked for other languages."""
    if config.option.markexpr:
        return
    aside = [item for item in items if item.get_closest_marker("clients")]
    if aside:
        config.hook.pytest_deselected(items=aside)
        items[:] = [item for item in items if item not in aside]
