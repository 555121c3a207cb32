"""Some thousand mutated requests beside real traffic. (`make test-fuzz` throws many more.)"""

from pathlib import Path

from tests.hostile.forms import Stage, other_forms, served_forms
from tests.hostile.fuzz import attack
from tests.hostile.fuzz_run import run, summary

_FRAMES = 5000
_SEED = 7


def test_mutated_requests_harm_nobody(tmp_path: Path) -> None:
    state = run(_FRAMES, _SEED, tmp_path)
    assert not state["problems"], summary(state, _SEED)
    assert state["frames"] == _FRAMES
    assert state["outcomes"]["answered"] > 100
    assert state["outcomes"]["connection closed"] > 100
    assert min(state["records"], state["seen"], state["questions"]) > 100


def test_a_frame_is_known_by_seed_and_number() -> None:
    served, others = served_forms(Stage()), other_forms(Stage())
    first = [attack(_SEED, number, served, others) for number in range(50)]
    again = [attack(_SEED, number, served, others) for number in reversed(range(50))]
    assert first == again[::-1]
    assert len({each.data for each in first}) > 45
    assert first != [attack(_SEED + 1, number, served, others) for number in range(50)]
