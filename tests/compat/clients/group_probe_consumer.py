"""Group scenarios: the ConsumerGroupHeartbeat of one member, and static members (KIP-848)."""

import time
from typing import Any

from tests.compat.clients.group_probe import SETTLE_S, GroupProbe, GroupScenario
from tests.compat.clients.group_probe_members import beat_of_consumer, first_beat
from tests.compat.raw import Plain

API = "consumer_group_heartbeat"


def shown(probe: GroupProbe, name: str, group: str, version: int = 1) -> Plain:
    """What ConsumerGroupDescribe says of a group."""
    return probe.ask(name, "consumer_group_describe", version, {"group_ids": [group]})


def come(probe: GroupProbe, group: str, member: str, *topics: str, **options: Any) -> int:
    """A member comes in and says at once that it owns what it was given; returns its epoch."""
    answer = probe.must(API, 1, first_beat(group, member, *topics, **options))
    epoch: int = answer["member_epoch"]
    given = answer["assignment"]
    owned = {row["topic_id"]: row["partitions"] for row in given["topic_partitions"]}
    probe.must(API, 1, beat_of_consumer(group, member, epoch, owned=owned))
    return epoch


class Party:
    """Members of one group who do as they are told, each beat kept."""

    def __init__(self, probe: GroupProbe, group: str, **options: Any) -> None:
        self.probe, self.group, self.options = probe, group, options
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[str, list[int]]] = {}

    def enter(self, member: str, *topics: str, **options: Any) -> None:
        """A member comes; it takes what it is given, and says so in its next beat."""
        known = self.options | options
        body = first_beat(self.group, f"plain-{member}", *topics, **known)
        self._take(member, self.probe.ask(f"{member} comes", API, 1, body))

    def beat(self, member: str, note: str = "beats", **options: Any) -> None:
        """A member says what it owns, and takes what the answer gives it."""
        self.say(member, note, **{"owned": self.owned[member]} | options)

    def say(self, member: str, note: str, **options: Any) -> None:
        """A beat that says nothing but the options; `back` counts epochs into the past."""
        epoch = options.pop("epoch", self.epochs.get(member, 0) - options.pop("back", 0))
        body = beat_of_consumer(self.group, f"plain-{member}", epoch, **options)
        self._take(member, self.probe.ask(f"{member} {note}", API, 1, body))

    def _take(self, member: str, answer: Plain) -> None:
        if answer["error_code"] != "NONE":
            return
        self.epochs[member] = answer["member_epoch"]
        given = answer["assignment"]
        if given is not None:
            rows = given["topic_partitions"]
            self.owned[member] = {row["topic_id"]: row["partitions"] for row in rows}
        self.owned.setdefault(member, {})


def first_beats(probe: GroupProbe) -> None:
    """First ConsumerGroupHeartbeat."""
    topic = probe.topic("beat-topic", 2)

    def ask(name: str, body: Plain, version: int = 1) -> None:
        probe.ask(name, API, version, body)

    def full(group: str, member: str = "plain-m", **options: Any) -> Plain:
        return first_beat(group, member, "beat-topic", **options)

    ask("v0, without a member id", full("beat-v0", ""), 0)
    ask("v0, with a member id", full("beat-v0-id"), 0)
    ask("v1, without a member id", full("beat-v1", ""))
    ask("v1, with a member id", full("beat-v1-id"))
    ask("member id of 40 chars", full("beat-long", "m" * 40))
    ask("member id with odd letters", full("beat-odd", "é /\n"))
    ask("no rebalance timeout", full("beat-r", rebalance=-1))
    ask("rebalance timeout 0", full("beat-r0", rebalance=0))
    ask("no topics, no regex", full("beat-r", topics=None))
    ask("no topics, empty regex", full("beat-er", topics=None, regex=""))
    ask("empty list of topics", full("beat-el", topics=()))
    ask("owned null", full("beat-r", owned=None))
    ask("owned something", full("beat-r", owned={topic: [0]}))
    ask("empty instance id", full("beat-r", instance=""))
    ask("empty rack id", full("beat-r", rack=""))
    ask("empty assignor", full("beat-r", assignor=""))
    ask("unknown assignor", full("beat-r", assignor="sticky"))
    ask("known assignor", full("beat-as", assignor="range"))
    ask("topic twice", full("beat-tw", topics=("beat-topic", "beat-topic")))
    ask("unknown topic", full("beat-ut", topics=("no-such-topic",)))
    ask("invalid topic name", full("beat-it", topics=("no/such",)))
    ask("empty topic name", full("beat-et", topics=("",)))
    ask("epoch -3", full("beat-r", epoch=-3))
    ask("epoch -1, unknown group", beat_of_consumer("beat-u", "plain-m", -1))
    ask("epoch -2, unknown group", beat_of_consumer("beat-u", "plain-m", -2, instance="i"))
    ask("epoch -2 without an instance", beat_of_consumer("beat-u", "plain-m", -2))
    ask("epoch 1, unknown group", full("beat-u", epoch=1))
    ask("epoch 1, unknown group, nothing else", beat_of_consumer("beat-u", "plain-m", 1))
    ask("epoch 1, without a member id, v0", beat_of_consumer("beat-u", "", 1), 0)
    ask("epoch -1, without a member id, v0", beat_of_consumer("beat-u", "", -1), 0)
    ask("empty group id", full(""))
    ask("blank group id", full(" "))
    ask("blank member id", full("beat-bm", " "))
    shown(probe, "the group that was only refused", "beat-r")


def alone(probe: GroupProbe) -> None:
    """One member alone in its group."""
    topic = probe.topic("alone", 3)
    group, me = "alone", "plain-1"

    def ask(name: str, epoch: int, **options: Any) -> Plain:
        return probe.ask(name, API, 1, beat_of_consumer(group, me, epoch, **options))

    answer = probe.ask("comes", API, 1, first_beat(group, me, "alone"))
    epoch = answer["member_epoch"]
    shown(probe, "described before it said what it owns", group)
    ask("beats without a word", epoch)
    ask("owns part of it", epoch, owned={topic: [0]})
    ask("owns all of it", epoch, owned={topic: [0, 1, 2]})
    ask("beats on", epoch)
    shown(probe, "described", group)
    ask("says everything again", epoch, owned={topic: [0, 1, 2]}, topics=("alone",),
        rebalance=60_000)  # fmt: skip
    ask("says that it owns less", epoch, owned={topic: [1]})
    ask("says that it owns nothing", epoch, owned={})
    ask("says that it owns what is not there", epoch, owned={topic: [0, 9]})
    ask("future epoch", epoch + 1)
    ask("old epoch", epoch - 1, owned={topic: [0]})
    ask("epoch 0 again", 0, topics=("alone",), rebalance=60_000, owned={})
    ask("epoch after that", epoch)
    ask("another assignor", epoch, assignor="range")
    shown(probe, "described with another assignor", group)
    ask("an unknown assignor", epoch, assignor="nonsense")
    ask("another rebalance timeout", epoch, rebalance=1000)
    ask("no topics any more", epoch, topics=())
    shown(probe, "described without topics", group)
    probe.ask("a stranger", API, 1, beat_of_consumer(group, "plain-x", 1))
    probe.ask("a stranger leaves", API, 1, beat_of_consumer(group, "plain-x", -1))
    ask("leaves", -1)
    shown(probe, "described empty", group)
    ask("leaves again", -1)
    ask("beats after it left", epoch)
    answer = ask("comes back", 0, topics=("alone",), rebalance=60_000, owned={})
    shown(probe, "described after it came back", group)


def previous_epoch(probe: GroupProbe) -> None:
    """A member repeats itself with its previous epoch."""
    topic = probe.topic("previous", 2)
    party = Party(probe, "previous")
    party.enter("1", "previous")
    party.beat("1")
    party.enter("2", "previous")
    party.say("1", "is told to give up")
    party.beat("1", "gave up")
    for name, back in (("previous", 1), ("last but two", 2)):
        party.say(
            "1", f"repeats the {name} epoch, owning what it has", owned={topic: [0]}, back=back
        )
        party.say("1", f"repeats the {name} epoch, nothing said", back=back)
        party.say("1", f"repeats the {name} epoch, owning more", owned={topic: [0, 1]}, back=back)
        party.say("1", f"repeats the {name} epoch, owning nothing", owned={}, back=back)
    party.say("1", "goes on")
    party.beat("2", "takes its share")
    party.say("2", "repeats the previous epoch, owning what it has", owned={topic: [1]}, back=1)


def regexes(probe: GroupProbe) -> None:
    """Subscriptions by regular expression."""
    for name in ("re-one", "re-two", "xre-three"):
        probe.topic(name)
    party = Party(probe, "re-a")
    party.enter("1", topics=None, regex="re-.*")
    time.sleep(2 * SETTLE_S)
    party.say("1", "beats again")
    party.say("1", "beats a third time")
    shown(probe, "described", "re-a")
    probe.topic("re-later")
    time.sleep(2 * SETTLE_S)
    party.say("1", "beats after another topic came")
    party.say("1", "beats again after another topic came")
    party.say("1", "changes to an invalid one", regex="re-(")
    party.say("1", "changes to names", regex="", topics=("re-one",))
    party.say("1", "beats on")
    other = Party(probe, "re-b")
    for member, regex in (
        ("invalid", "re-("),
        ("lookahead", "re-(?!two).*"),
        ("backreference", "(r)e-\\1"),
        ("of-nothing", "nothing-like-it"),
        ("unanchored", "re"),
    ):
        other.enter(member, topics=None, regex=regex)
    time.sleep(2 * SETTLE_S)
    other.say("unanchored", "beats again")
    other.say("unanchored", "beats a third time")
    both = Party(probe, "re-c")
    both.enter("both", "xre-three", regex="re-t.*")
    time.sleep(2 * SETTLE_S)
    both.say("both", "beats again")
    both.say("both", "beats a third time")
    body = first_beat("re-v0", "plain-1", topics=None, regex="re-.*")
    probe.ask("v0, which knows none", API, 0, body)


def static_members(probe: GroupProbe) -> None:
    """Static members of a consumer group."""
    topic = probe.topic("cstatic", 2)
    group = "cstatic"
    party = Party(probe, group)
    party.enter("1", "cstatic", instance="one")
    party.beat("1", "owns it", instance="one")
    party.enter("2", "cstatic", instance="one")
    party.say("1", "beats without the instance id")
    party.say("1", "beats with another instance id", instance="two")
    party.say("x", "beats with the instance id", instance="one", epoch=party.epochs["1"])
    party.say("x", "leaves for a while", instance="one", epoch=-2)
    party.say("x", "leaves for good", instance="one", epoch=-1)
    first = party.epochs["1"]
    party.say("1", "leaves for a while", instance="one", epoch=-2)
    shown(probe, "described while it is away", group)
    party.say("1", "leaves for a while again", instance="one", epoch=-2)
    party.say("1", "beats while it is away", instance="one", epoch=first)
    party.enter("3", "cstatic", instance="one")
    shown(probe, "described after the return", group)
    party.say("1", "beats although it is replaced", instance="one", epoch=first)
    party.beat("3", "owns it", instance="one")
    party.say("3", "leaves for a while", instance="one", epoch=-2)
    body = first_beat(group, "plain-3", "cstatic", instance="one")
    probe.ask("3 comes back with its old member id", API, 1, body)
    party.say("3", "leaves for a while again", instance="one", epoch=-2)
    body = first_beat(group, "plain-6", "cstatic", "none", instance="one")
    probe.ask("6 comes back with another subscription", API, 1, body)
    party.say("6", "leaves for good", instance="one", epoch=-1)
    shown(probe, "described when it left for good", group)
    party.enter("4", "cstatic")
    party.say("4", "leaves for a while without being static", epoch=-2)
    party.say("4", "pretends to be static", instance="one")
    party.enter("5", "cstatic", instance="one")
    body = first_beat(group, "plain-5", "cstatic", instance="one")
    probe.ask("5 comes while it is there", API, 1, body)
    party.say("4", "is told to give up")
    party.say("4", "has nothing", owned={topic: [0]})
    party.say("5", "takes its share", instance="one", owned={})


SCENARIOS: tuple[GroupScenario, ...] = (
    first_beats, alone, previous_epoch, regexes, static_members,
)  # fmt: skip
