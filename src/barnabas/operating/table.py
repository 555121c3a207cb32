"""Replicas on brokers while a plan is made: counts, bytes, racks, and one move after another."""

from collections.abc import Mapping

from barnabas.operating.plan import Layout
from barnabas.operating.snapshot import Place


class Table:
    """A layout that is changed in place. `racks` has the brokers that may take replicas.

    Other brokers may hold some, too: those that are dead, and those that shall get nothing new.
    """

    def __init__(
        self, layout: Layout, racks: Mapping[int, str | None], sizes: Mapping[Place, int]
    ) -> None:
        self.layout = dict(layout)
        self.sizes = sizes
        self.brokers = sorted(racks)
        # A broker without a rack is a rack of its own: nothing is known that it would die with.
        self._racks = {each: racks[each] or each for each in self.brokers}
        self._rack_count = len(set(self._racks.values()))
        self.held: dict[int, set[Place]] = {each: set() for each in self.brokers}
        self.bytes = dict.fromkeys(self.brokers, 0)
        for place, replicas in layout.items():
            for each in replicas:
                if each in self.held:
                    self.held[each].add(place)
                    self.bytes[each] += sizes.get(place, 0)

    def count(self, broker: int) -> int:
        """Replicas that it holds."""
        return len(self.held[broker])

    def size(self, place: Place) -> int:
        """Bytes of a replica."""
        return self.sizes.get(place, 0)

    def move(self, place: Place, source: int, target: int) -> None:
        """One replica, from a broker that may be any to one that may take it."""
        replicas = self.layout[place]
        self.layout[place] = tuple(target if each == source else each for each in replicas)
        size = self.size(place)
        if source in self.held:
            self.held[source].remove(place)
            self.bytes[source] -= size
        self.held[target].add(place)
        self.bytes[target] += size

    def may_move(self, place: Place, source: int, target: int) -> bool:
        """Whether the target has none yet, and the replicas share no more racks than before."""
        replicas = self.layout[place]
        if target in replicas:
            return False
        others = [each for each in replicas if each != source]
        return self._shared([*others, target]) <= self._shared(replicas)

    def shared_racks(self, place: Place) -> int:
        """How many replicas are on a rack that has another one, though there are racks enough."""
        return self._shared(self.layout[place])

    def shared_after(self, place: Place, source: int, target: int) -> int:
        """The same, if a replica were moved."""
        replicas = self.layout[place]
        return self._shared([target if each == source else each for each in replicas])

    def _shared(self, replicas: list[int] | tuple[int, ...]) -> int:
        # Where a dead broker stands is not known: it shares with nobody.
        racks = {self._racks.get(each, ("gone", each)) for each in replicas}
        missing = min(len(replicas), self._rack_count) - len(racks)
        return max(missing, 0)
