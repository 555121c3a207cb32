"""What a correct log does is never complained of; whatever is changed in it is named."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.verify.model import PARTITIONS, Model
from tests.verify.recorded import Recorded

SEEDS = st.integers(0, 2**32)
Line = dict[str, Any]


@settings(max_examples=200, deadline=None)
@given(SEEDS, st.integers(0, 120))
def test_a_correct_log_is_never_complained_of(seed: int, steps: int) -> None:
    it = Model(seed).run(steps)
    verdict = it.verdict()
    assert verdict.is_clean, "\n".join(each.sentence for each in verdict.findings)
    assert verdict.tally["values sent"] >= verdict.tally["values acknowledged"]


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_the_same_history_has_the_same_verdict(seed: int) -> None:
    it = Model(seed).run(60)
    _forget_value(it, _pick(it, "ok", "send", "txn"))
    assert it.verdict() == it.verdict()


# --- mutations: each makes a wrong history out of a right one ----------------------------------


def _polls(it: Recorded, reader: str = "rc") -> list[Line]:
    return [each for each in it.lines if each["f"] == "poll" and each["process"] == reader]


def _pick(it: Recorded, kind: str, *functions: str, when: Callable[[Line], bool] = bool) -> Line:
    """The first such operation with values; hypothesis tries another history when there is none."""
    for line in it.lines:
        if line["type"] == kind and line["f"] in functions and line.get("value") and when(line):
            return line
    assume(False)
    raise AssertionError


def _values(line: Line) -> list[str]:
    return [step[3] for step in line["value"] if step[0] == "send"]


def _hide(it: Recorded, values: set[str]) -> None:
    """No consumer has ever got them."""
    for line in it.lines:
        if line["f"] == "poll":
            for step in line["value"]:
                step[3] = [each for each in step[3] if each[1] not in values]


def _forget_value(it: Recorded, line: Line) -> str:
    value = _values(line)[0]
    _hide(it, {value})
    return value


def _with_end(it: Recorded) -> None:
    """A last record in each partition, so that everything before it was passed."""
    for partition in range(PARTITIONS):
        value = f"end@{partition}"
        high = 10_000
        it.send("ender", {value: high})
        for reader in ("rc", "ru"):
            it.assign(reader, *([None] * PARTITIONS))
        it.poll("rc", {high: value}, partition=partition)
        it.peek("ru", {high: value}, partition=partition)


def lose_a_send(it: Recorded) -> set[str]:
    _forget_value(it, _pick(it, "ok", "send"))
    _with_end(it)
    return {"lost-write"}


def lose_a_transaction(it: Recorded) -> set[str]:
    _hide(it, set(_values(_pick(it, "ok", "txn"))))
    _with_end(it)
    return {"lost-write"}


def tear_a_transaction(it: Recorded) -> set[str]:
    _forget_value(it, _pick(it, "ok", "txn", when=lambda line: len(_values(line)) > 1))
    return {"torn-transaction"}


def abort_a_transaction(it: Recorded) -> set[str]:
    line = _pick(it, "ok", "txn")
    line["type"] = "fail"
    return {"aborted-read"}


def fail_a_send(it: Recorded) -> set[str]:
    _pick(it, "ok", "send")["type"] = "fail"
    return {"aborted-read"}


def read_early(it: Recorded) -> set[str]:
    """Somebody had a record before the transaction was asked to commit."""
    ended = _pick(it, "ok", "txn")
    step = next(each for each in ended["value"] if each[0] == "send")
    place = it.lines.index(ended)
    asked = max(
        number for number, line in enumerate(it.lines[:place])
        if line["process"] == ended["process"] and line["type"] == "commit"
    )  # fmt: skip
    _, topic, partition, value, offset, _ = step
    poll = ["poll", topic, partition, [[offset, value]]]
    it.lines.insert(asked, {"process": "early", "type": "ok", "f": "poll", "time": 0,
                            "value": [poll]})  # fmt: skip
    return {"precommitted-read"}


def store_twice(it: Recorded) -> set[str]:
    line = _pick(it, "ok", "send", "txn")
    step = next(each for each in line["value"] if each[0] == "send")
    it.poll("twice", {20_000: step[3]}, partition=step[2])
    return {"duplicate"}


def store_another(it: Recorded) -> set[str]:
    line = _pick(it, "ok", "send", "txn")
    step = next(each for each in line["value"] if each[0] == "send")
    it.send("other", [f"other@{step[2]}"], "info")
    it.peek("twice", {step[4]: f"other@{step[2]}"}, partition=step[2])
    return {"inconsistent-offsets"}


def invent(it: Recorded) -> set[str]:
    _pick(it, "ok", "send", when=lambda line: any(step[2] == 0 for step in line["value"]))
    it.peek("twice", {20_000: "invented"})
    return {"unknown-value"}


def _long_poll(it: Recorded) -> tuple[Line, list[Any]]:
    for line in _polls(it):
        for step in line["value"]:
            if len(step[3]) > 2:
                return line, step
    assume(False)
    raise AssertionError


def skip_within_a_poll(it: Recorded) -> set[str]:
    """One consumer did not get what another one of its kind did."""
    line, step = _long_poll(it)
    witness = copy.deepcopy(line)
    witness["process"] = "witness"
    it.lines.append(witness)
    del step[3][1]
    return {"int-poll-skip"}


def skip_between_polls(it: Recorded) -> set[str]:
    _, step = _long_poll(it)
    (first, value), _, (third, other) = step[3][:3]
    it.line("skipper", "ok", "assign", [["t", step[2], first]])
    it.poll("skipper", {first: value}, partition=step[2])
    it.poll("skipper", {third: other}, partition=step[2])
    return {"poll-skip"}


def go_back_within_a_poll(it: Recorded) -> set[str]:
    line, _ = _long_poll(it)
    witness = copy.deepcopy(line)
    witness["process"] = "witness"
    witness["value"][0][3].reverse()
    witness["value"][0] = witness["value"][0][:4]
    it.lines.append(witness)
    return {"int-nonmonotonic-poll"}


def go_back_between_polls(it: Recorded) -> set[str]:
    _, step = _long_poll(it)
    (first, value), (second, other) = step[3][:2]
    it.line("skipper", "ok", "assign", [["t", step[2], second]])
    it.poll("skipper", {second: other}, partition=step[2])
    it.poll("skipper", {first: value}, partition=step[2])
    return {"nonmonotonic-poll"}


def lose_the_last(it: Recorded) -> set[str]:
    it.send("late", {"late": 30_000})
    return {"unseen"}


def take_an_offset_of_the_aborted(it: Recorded) -> set[str]:
    it.txn("w9", [], "fail", ["offset", "g", "t", 0, 999])
    it.found("rc", 999)
    return {"aborted-offset"}


def lose_an_offset(it: Recorded) -> set[str]:
    it.txn("w9", [], "ok", ["offset", "g", "t", 0, 999])
    it.found("rc", None)
    return {"lost-offset"}


MUTATIONS = (
    lose_a_send, lose_a_transaction, tear_a_transaction, abort_a_transaction, fail_a_send,
    read_early, store_twice, store_another, invent, skip_within_a_poll, skip_between_polls,
    go_back_within_a_poll, go_back_between_polls, lose_the_last, take_an_offset_of_the_aborted,
    lose_an_offset,
)  # fmt: skip

CONSEQUENCES: dict[str, set[str]] = {
    "store_twice": {"lost-write", "poll-skip"},
    "lose_a_send": {"int-poll-skip", "poll-skip"},
    "abort_a_transaction": {"aborted-offset"},
}
"""What may come with it."""


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_every_change_is_named(mutate: Callable[[Recorded], set[str]], seed: int) -> None:
    it = Model(seed).run(80)
    expected = mutate(it)
    for number, line in enumerate(it.lines, 1):
        line["time"] = number
    found = set(it.anomalies())
    assert expected <= found, json.dumps(it.lines)
    assert found <= expected | CONSEQUENCES.get(mutate.__name__, set())


def test_every_seed_that_is_tried_does_something() -> None:
    """The model covers what it is for: every end of a transaction, offsets, both consumers."""
    it = Model(7).run(400)
    tally = it.verdict().tally
    for what in ("transactions committed", "transactions aborted", "transactions unknown",
                 "values read", "offsets of groups found"):  # fmt: skip
        assert tally[what] > 5, tally
