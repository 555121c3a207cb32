"""ListConfigResources: what can be asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.api.conftest import House


def _ask(house: House, *types: int) -> tuple[str, list[Any]]:
    answer = house.ask("list_config_resources", 1, resource_types=types)
    found = [(each["resource_type"], each["resource_name"]) for each in answer["config_resources"]]
    return answer["error_code"], sorted(found)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([4], [(4, "1")]),
        ([2], [(2, "a"), (2, "b")]),
        ([2, 2, 4], [(2, "a"), (2, "b"), (4, "1")]),
        ([], [(2, "a"), (2, "b"), (4, "1")]),
        ([8, 16, 32], []),
    ],
)
def test_types(house: House, types: list[int], expected: Any) -> None:
    house.topic("a")
    house.topic("b")
    assert _ask(house, *types) == ("none", expected)


@pytest.mark.parametrize("types", [[99], [2, 3], [0], [-1]])
def test_unknown_types(house: House, types: list[int]) -> None:
    assert _ask(house, *types) == ("unsupported_version", [])


def test_version_0_is_about_client_metrics(house: House) -> None:
    house.topic("a")
    answer = house.ask("list_config_resources", 0)
    assert (answer["error_code"], answer["config_resources"]) == ("none", [])
