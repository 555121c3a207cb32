"""Plans of faults: drawn, told and read back, and cut down to what matters."""

from collections.abc import Sequence

import pytest

from barnabas.sim.cluster.moves import draw_moves
from barnabas.sim.cluster.plan import CRASHES, PARTITIONS, Fault, draw_plan
from barnabas.sim.cluster.settings import Settings
from barnabas.sim.cluster.shrinking import minimal


def plan_of(seed: int) -> list[Fault]:
    return draw_plan(seed, Settings.draw(seed))


@pytest.mark.parametrize("seed", range(50))
def test_a_fault_is_read_back_from_its_line(seed: int) -> None:
    plan = plan_of(seed)
    assert [Fault.read(f"    {fault}\n") for fault in plan] == plan


def test_every_plan_has_crashes_and_partitions() -> None:
    for seed in range(300):
        kinds = [fault.kind for fault in plan_of(seed)]
        assert sum(kind in CRASHES for kind in kinds) >= 3
        assert sum(kind in PARTITIONS for kind in kinds) >= 2


def test_many_seeds_move_partitions_and_some_tell_their_old_stories() -> None:
    moves = {seed: draw_moves(seed, Settings.draw(seed)) for seed in range(150)}
    assert sum(map(bool, moves.values())) > 50
    assert not any(moves[seed] for seed in (0, 1, 2, 4, 7, 17, 19, 20, 27, 62))
    for seed, some in moves.items():
        brokers = set(range(1, Settings.draw(seed).brokers + 1))
        for each in some:
            assert each.replicas is None or len(set(each.replicas)) == len(each.replicas) > 0
            assert each.replicas is None or set(each.replicas) <= brokers


@pytest.mark.parametrize("line", ["", "12", "1.0 kill leader", "x kill 1 for 1.0 (3)"])
def test_what_is_no_fault_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no fault"):
        Fault.read(line)


@pytest.mark.parametrize("places", [(), (3,), (0, 8), (2, 3, 7)])
def test_only_what_matters_is_left_of_a_plan(places: tuple[int, ...]) -> None:
    plan = plan_of(5)
    needed = [plan[place] for place in places]

    def fails(fewer: Sequence[Fault]) -> bool:
        return all(fault in fewer for fault in needed)

    assert minimal(plan, fails, 1_000) == needed
