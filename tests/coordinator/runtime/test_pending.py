"""What is pending, against a model that keeps the place of every write."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.runtime.pending import Pending

KEYS = st.sampled_from("ab")
PRODUCERS = st.integers(1, 3)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, PRODUCERS),
        st.tuples(st.just("plain"), KEYS, st.none()),
        st.tuples(st.just("remove"), KEYS, st.none()),
        st.tuples(st.just("commit"), st.none(), PRODUCERS),
        st.tuples(st.just("abort"), st.none(), PRODUCERS),
    ),
    max_size=25,
)


@dataclass
class Model:
    """The last place of each key that counts, and of each pending write."""

    counts: dict[str, int] = field(default_factory=dict)
    pending: dict[tuple[int, str], int] = field(default_factory=dict)

    def step(self, place: int, event: tuple[str, str | None, int | None]) -> None:
        kind, key, producer = event
        if kind == "write" and key is not None and producer is not None:
            self.pending[producer, key] = place
        elif kind == "plain" and key is not None:
            self.counts[key] = place
        elif kind == "remove" and key is not None:
            self.counts.pop(key, None)
            self.pending = {each: at for each, at in self.pending.items() if each[1] != key}
        else:
            ended = [each for each in self.pending if each[0] == producer]
            for each in ended:
                at = self.pending.pop(each)
                if kind == "commit" and at > self.counts.get(each[1], -1):
                    self.counts[each[1]] = at


class Kept:
    """The same, kept as a shard keeps it."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.pending: Pending[str, int] = Pending()

    def step(self, place: int, event: tuple[str, str | None, int | None]) -> None:
        kind, key, producer = event
        if kind == "write" and key is not None and producer is not None:
            self.pending.write(producer, key, place)
        elif kind == "plain" and key is not None:
            self.counts[key] = place
            self.pending.overtake(key)
        elif kind == "remove" and key is not None:
            self.counts.pop(key, None)
            self.pending.remove(key)
        elif producer is not None:
            self.counts.update(self.pending.end(producer, committed=kind == "commit"))


@given(EVENTS)
def test_the_last_place_in_the_log_counts(
    events: list[tuple[str, str | None, int | None]],
) -> None:
    model, kept = Model(), Kept()
    for place, event in enumerate(events):
        model.step(place, event)
        kept.step(place, event)
        assert kept.counts == model.counts
        assert set(kept.pending) == {key for _, key in model.pending}
        assert bool(kept.pending) is bool(model.pending)
        for key in "ab":
            written = sorted(at for (_, other), at in model.pending.items() if other == key)
            assert kept.pending.values(key) == written


@given(EVENTS)
def test_what_is_handed_on_gives_the_same_state(
    events: list[tuple[str, str | None, int | None]],
) -> None:
    """As a shard that is loaded from what another had: nobody can tell them apart later."""
    split = len(events) // 2
    first = Kept()
    for place, event in enumerate(events[:split]):
        first.step(place, event)
    second = Kept()
    for producer, key, value in first.pending.writes(overtaken=True):
        second.pending.write(producer, key, value)
    for key, value in first.counts.items():
        second.counts[key] = value
        second.pending.overtake(key)
    for producer, key, value in first.pending.writes(overtaken=False):
        second.pending.write(producer, key, value)
    for place, event in enumerate(events[split:], split):
        first.step(place, event)
        second.step(place, event)
        assert second.counts == first.counts
        assert set(second.pending) == set(first.pending)
