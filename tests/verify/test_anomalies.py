"""Each anomaly with the least history that has it, and one that just does not."""

import pytest
from tests.verify.recorded import Recorded, offset


@pytest.fixture
def it() -> Recorded:
    return Recorded()


# --- what must be read -------------------------------------------------------------------------


def test_a_lost_write(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("r", {1: "b"})
    assert it.anomalies() == {"lost-write": 1}
    (finding,) = it.verdict().findings
    assert finding.values == ("a",)
    assert finding.offsets == (0,)
    assert finding.processes == ("w",)
    assert finding.sentence == (
        "t-0: 'a' of w was acknowledged at offset 0 and never read, although readers came to "
        "offset 1."
    )


def test_a_write_that_somebody_else_read_is_not_lost(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("r", {1: "b"})
    it.poll("q", {0: "a"})
    assert it.anomalies() == {}


def test_a_write_that_only_the_uncommitted_have_read_is_lost_to_the_others(it: Recorded) -> None:
    it.txn("w", {"a": 0})
    it.peek("q", {0: "a"})
    it.poll("r", {}, 2)
    assert it.anomalies() == {"lost-write": 1}
    (finding,) = it.verdict().findings
    assert "by those who read what is committed" in finding.sentence


def test_where_only_the_uncommitted_read_they_are_enough(it: Recorded) -> None:
    it.txn("w", {"a": 0})
    it.peek("q", {0: "a"})
    assert it.anomalies() == {}


def test_a_write_that_nobody_knows_of_may_be_lost(it: Recorded) -> None:
    it.send("w", ["a"], "info")
    it.send("w", {"b": 1})
    it.poll("r", {1: "b"})
    assert it.anomalies() == {}


def test_what_was_acknowledged_counts_though_the_rest_of_its_burst_failed(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": None}, "info")
    it.send("w", {"c": 1})
    it.poll("r", {1: "c"})
    assert it.anomalies() == {"lost-write": 1}
    (finding,) = it.verdict().findings
    assert finding.values == ("a",)
    assert it.verdict().tally["values acknowledged"] == 2


def test_offsets_of_a_transaction_that_nobody_knows_of_are_no_promise(it: Recorded) -> None:
    """Its records were stored; that says nothing of whether it was committed."""
    it.begin("w", "txn", ["a"])
    it.line("w", "commit", "txn")
    it.end("w", "txn", "info", {"a": 0})
    it.send("w", {"b": 2})
    it.poll("r", {2: "b"})
    assert it.anomalies() == {}


def test_a_send_that_failed_has_no_offsets(it: Recorded) -> None:
    it.begin("w", "send", ["a"])
    it.end("w", "send", "fail", {"a": 0})
    it.send("w", {"b": 1})
    it.poll("r", {1: "b"})
    assert it.anomalies() == {}


def test_what_a_consumer_was_told_is_passed_counts_as_passed(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.poll("r", {}, 1)
    assert it.anomalies() == {"unseen": 1}
    it.poll("r", {}, 2)
    assert it.anomalies() == {"lost-write": 1}


def test_unseen(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"unseen": 1}
    it.poll("r", {1: "b"})
    assert it.anomalies() == {}


def test_a_partition_that_nobody_reads_is_not_judged(it: Recorded) -> None:
    it.send("w", {"a": 0, "b@1": 0})
    it.poll("r", {0: "a"})
    assert it.anomalies() == {}
    it.assign("r", 0, 0)
    assert it.anomalies() == {"unseen": 1}


def test_a_compacted_record_may_be_replaced(it: Recorded) -> None:
    it.send("w", {"a#k": 0, "b#k": 1, "c#j": 2})
    it.poll("r", {1: "b#k", 2: "c#j"})
    assert it.anomalies() == {}


def test_what_was_aborted_replaces_nothing(it: Recorded) -> None:
    it.send("w", {"a#k": 0})
    it.txn("x", ["b#k"], "fail")
    it.send("w", {"c#j": 3})
    it.peek("q", {1: "b#k", 3: "c#j"})
    it.poll("r", {3: "c#j"})
    assert it.anomalies() == {"lost-write": 1}


# --- transactions ------------------------------------------------------------------------------


def test_a_torn_transaction(it: Recorded) -> None:
    it.txn("w", {"a": 0, "b@1": 0})
    it.send("w", {"c@1": 2})
    it.poll("r", {0: "a"})
    it.poll("r", {2: "c@1"}, partition=1)
    assert it.anomalies() == {"torn-transaction": 1}
    (finding,) = it.verdict().findings
    assert finding.values == ("b@1", "a")
    assert finding.processes == ("w", "r")
    assert "'a' (t-0, offset 0) was read, but 'b@1' (t-1, offset 0) never was" in finding.sentence


def test_a_transaction_of_which_nothing_is_there_is_lost_rather_than_torn(it: Recorded) -> None:
    it.txn("w", {"a": 0, "b": 1})
    it.send("w", {"c": 3})
    it.poll("r", {3: "c"})
    assert it.anomalies() == {"lost-write": 2}


def test_a_transaction_that_never_becomes_whole(it: Recorded) -> None:
    it.txn("w", {"a": 0, "b@1": 0})
    it.assign("r", 0, 0)
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"torn-transaction": 1}
    it.poll("r", {0: "b@1"}, partition=1)
    assert it.anomalies() == {}


def test_an_unknown_commit_of_which_something_is_seen_must_be_there_whole(it: Recorded) -> None:
    it.txn("w", ["a", "b"], "info")
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"torn-transaction": 1}


def test_an_unknown_commit_may_have_been_an_abort(it: Recorded) -> None:
    it.txn("w", ["a", "b"], "info")
    it.peek("q", {0: "a"})
    it.poll("r", {}, 3)
    assert it.anomalies() == {}


def test_an_aborted_read(it: Recorded) -> None:
    it.txn("w", ["a"], "fail")
    it.peek("q", {0: "a"})
    assert it.anomalies() == {}
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"aborted-read": 1}
    (finding,) = it.verdict().findings
    assert finding.processes == ("w", "r")


def test_a_commit_that_was_refused_is_an_abort(it: Recorded) -> None:
    it.begin("w", "txn", ["a"])
    it.line("w", "commit", "txn")
    it.end("w", "txn", "fail")
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"aborted-read": 1}


def test_a_send_that_was_refused_is_not_read_by_anybody(it: Recorded) -> None:
    it.send("w", ["a"], "fail")
    it.peek("q", {0: "a"})
    assert it.anomalies() == {"aborted-read": 1}


def test_whoever_dies_before_the_commit_has_not_committed(it: Recorded) -> None:
    it.begin("w", "txn", ["a"])
    it.poll("r", {0: "a"})
    assert it.anomalies() == {"aborted-read": 1}


def test_whoever_dies_in_the_commit_may_have_committed(it: Recorded) -> None:
    it.begin("w", "txn", ["a"])
    it.line("w", "commit", "txn")
    it.poll("r", {0: "a"})
    assert it.anomalies() == {}


def test_a_precommitted_read(it: Recorded) -> None:
    it.begin("w", "txn", ["a"])
    it.poll("r", {0: "a"})
    it.line("w", "commit", "txn")
    it.end("w", "txn", "ok", {"a": 0})
    assert it.anomalies() == {"precommitted-read": 1}


def test_a_transaction_does_not_read_itself(it: Recorded) -> None:
    it.begin("w", "txn", ["a"])
    it.line("w", "commit", "txn")
    it.line("w", "ok", "txn", [["poll", "t", 0, [[0, "a"]]]])
    assert it.anomalies() == {"precommitted-read": 1}


# --- one place each ----------------------------------------------------------------------------


def test_a_duplicate(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.poll("r", {0: "a", 1: "a"})
    assert it.anomalies() == {"duplicate": 1}


def test_a_duplicate_of_a_producer_that_promises_nothing(it: Recorded) -> None:
    it.send("w", {"a": 0}, idempotent=False)
    it.poll("r", {0: "a", 1: "a"})
    assert it.anomalies() == {}


def test_a_value_elsewhere_than_acknowledged(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.poll("r", {1: "a"})
    assert it.anomalies() == {"duplicate": 1}


def test_a_duplicate_is_lost_only_if_its_last_place_was_passed(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.peek("q", {0: "a", 5: "a"})
    it.poll("r", {}, 3)
    assert it.anomalies() == {"duplicate": 1, "unseen": 1}


def test_inconsistent_offsets(it: Recorded) -> None:
    it.send("w", ["a", "b"], "info")
    it.poll("r", {0: "a"})
    it.poll("q", {0: "b"})
    assert it.anomalies() == {"inconsistent-offsets": 1}


def test_an_acknowledged_offset_with_something_else_on_it(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.send("x", ["b"], "info")
    it.poll("r", {0: "b"}, 1)
    assert it.anomalies() == {"inconsistent-offsets": 1, "unseen": 1}


def test_offsets_are_of_one_partition(it: Recorded) -> None:
    it.send("w", {"a": 0, "b@1": 0})
    it.poll("r", {0: "a"})
    it.poll("r", {0: "b@1"}, partition=1)
    assert it.anomalies() == {}


def test_a_value_that_nobody_sent(it: Recorded) -> None:
    it.poll("r", {0: "z"})
    assert it.anomalies() == {}  # Nobody who writes there is recorded.
    it.send("w", {"a": 1})
    it.poll("r", {1: "a"})
    assert it.anomalies() == {"unknown-value": 1}


def test_a_value_that_was_read_before_it_was_sent(it: Recorded) -> None:
    it.poll("r", {0: "a"})
    it.send("w", ["a"], "info")
    assert it.anomalies() == {"unknown-value": 1}


# --- order -------------------------------------------------------------------------------------


def test_skips_between_polls(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1, "c": 2})
    it.poll("q", {0: "a", 1: "b", 2: "c"})
    it.assign("r", 0)
    it.poll("r", {0: "a"})
    it.poll("r", {2: "c"})
    assert it.anomalies() == {"poll-skip": 1}
    assert it.verdict().findings[0].values == ("b",)


def test_groups_may_skip_between_polls(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1, "c": 2})
    it.poll("q", {0: "a", 1: "b", 2: "c"})
    it.assign("r", 0)
    it.line("r", "ok", "subscribe", ["t"])
    it.poll("r", {0: "a"})
    it.poll("r", {2: "c"})
    it.poll("r", {1: "b"})
    assert it.anomalies() == {}


def test_a_skip_at_the_start(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("q", {0: "a", 1: "b"})
    it.assign("r", 1)
    it.poll("r", {1: "b"})
    assert it.anomalies() == {}
    it.assign("r", 0)
    it.poll("r", {1: "b"})
    assert it.anomalies() == {"poll-skip": 1}


def test_a_consumer_that_was_killed_begins_anew(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.assign("r", 0)
    it.poll("r", {0: "a", 1: "b"})
    it.line("r", "info", "crash")
    it.poll("r", {0: "a"})
    assert it.anomalies() == {}


def test_skips_within_one_poll(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1, "c": 2})
    it.poll("q", {0: "a", 1: "b", 2: "c"})
    it.poll("r", {0: "a", 2: "c"}, rebalanced=True)
    assert it.anomalies() == {}
    it.poll("r", {0: "a", 2: "c"})
    assert it.anomalies() == {"int-poll-skip": 1}


def test_markers_and_what_was_aborted_may_be_skipped(it: Recorded) -> None:
    it.txn("w", {"a": 0})
    it.txn("w", ["b"], "fail")
    it.txn("w", {"c": 4})
    it.peek("q", {0: "a", 2: "b", 4: "c"})
    it.poll("r", {0: "a", 4: "c"})
    assert it.anomalies() == {}
    it.peek("s", {0: "a", 4: "c"})
    assert it.anomalies() == {"int-poll-skip": 1}


def test_a_position_that_skips(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("q", {0: "a", 1: "b"})
    it.poll("r", {0: "a"}, 1)
    assert it.anomalies() == {}
    it.poll("r", {0: "a"}, 2)
    assert it.anomalies() == {"int-poll-skip": 1}


def test_going_back_between_polls(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.assign("r", 0)
    it.poll("r", {0: "a", 1: "b"})
    assert it.anomalies() == {}
    it.poll("r", {1: "b"})
    assert it.anomalies() == {"nonmonotonic-poll": 1}


def test_going_back_within_one_poll(it: Recorded) -> None:
    it.send("w", {"a": 0, "b": 1})
    it.poll("r", {1: "b", 0: "a"})
    assert it.anomalies() == {"int-nonmonotonic-poll": 1}


def test_sends_out_of_order(it: Recorded) -> None:
    it.begin("w", "send", ["a"])
    it.end("w", "send", "ok", {"a": 1})
    it.begin("w", "send", ["b"])
    it.end("w", "send", "ok", {"b": 0})
    it.poll("r", {0: "b", 1: "a"})
    assert it.anomalies() == {"nonmonotonic-send": 1, "realtime-order": 1}


def test_sends_out_of_order_within_one_operation(it: Recorded) -> None:
    it.send("w", {"a": 1, "b": 0})
    it.poll("r", {0: "b", 1: "a"})
    assert it.anomalies() == {"int-nonmonotonic-send": 1}


def test_the_order_of_a_producer_that_promises_nothing(it: Recorded) -> None:
    it.send("w", {"a": 1, "b": 0}, idempotent=False)
    it.poll("r", {0: "b", 1: "a"})
    assert it.anomalies() == {}


def test_an_offset_below_what_was_known_before(it: Recorded) -> None:
    it.begin("w", "send", ["a"])
    it.send("x", {"b": 1})
    it.end("w", "send", "ok", {"a": 0})
    it.poll("r", {0: "a", 1: "b"})
    assert it.anomalies() == {}  # They were on their way together.
    it.begin("w", "send", ["c"])
    it.end("w", "send", "ok", {"c": 1})
    assert "realtime-order" in it.anomalies()


# --- offsets of groups -------------------------------------------------------------------------


def test_an_offset_of_an_aborted_transaction(it: Recorded) -> None:
    it.txn("w", [], "fail", offset(5))
    it.found("r", None)
    assert it.anomalies() == {}
    it.found("r", 5)
    assert it.anomalies() == {"aborted-offset": 1}
    (finding,) = it.verdict().findings
    assert finding.offsets == (5,)
    assert finding.processes == ("w", "r")


def test_an_offset_that_was_committed_the_second_time(it: Recorded) -> None:
    it.txn("w", [], "fail", offset(5))
    it.txn("w", [], "ok", offset(5))
    it.found("r", 5)
    assert it.anomalies() == {}


def test_an_offset_that_may_have_been_committed(it: Recorded) -> None:
    it.txn("w", [], "info", offset(5))
    it.found("r", 5)
    it.found("r", None)
    assert it.anomalies() == {}


def test_an_offset_that_was_found_before_the_commit(it: Recorded) -> None:
    it.begin("w", "txn", [], offset(5))
    it.found("r", 5)
    it.line("w", "commit", "txn")
    it.end("w", "txn", "ok")
    assert it.anomalies() == {"precommitted-read": 1}


def test_an_offset_that_nobody_committed(it: Recorded) -> None:
    it.found("r", 5)
    assert it.anomalies() == {}  # Nobody who commits there is recorded.
    it.line("w", "invoke", "offset-commit", [offset(7)])
    it.line("w", "ok", "offset-commit")
    it.found("r", 7)
    assert it.anomalies() == {"unknown-value": 1}


@pytest.mark.parametrize("found", [None, 5])
def test_an_offset_that_went_back(it: Recorded, found: int | None) -> None:
    it.txn("w", [], "ok", offset(5))
    it.found("r", 5)
    it.txn("w", [], "ok", offset(7))
    it.found("r", 7)
    assert it.anomalies() == {}
    it.found("r", found)
    assert it.anomalies() == {"lost-offset": 1}


def test_an_offset_that_was_set_back(it: Recorded) -> None:
    it.txn("w", [], "ok", offset(7))
    it.txn("w", [], "ok", offset(5))
    it.found("r", 5)
    assert it.anomalies() == {}


def test_offsets_that_were_committed_at_the_same_time(it: Recorded) -> None:
    it.begin("w", "txn", [], offset(5))
    it.line("w", "commit", "txn")
    it.txn("x", [], "ok", offset(7))
    it.end("w", "txn", "ok")
    it.found("r", 5)
    it.found("r", 7)
    assert it.anomalies() == {}


# --- what is only told -------------------------------------------------------------------------


def test_the_worst_lag_is_told(it: Recorded) -> None:
    it.send("w", {"a": 0})
    it.send("w", {"b": 1})
    it.poll("r", {0: "a", 1: "b"})
    lag = it.verdict().worst_lag
    assert (lag.nanoseconds, lag.value, lag.partition, lag.reader) == (3_000_000, "a", "t-0", "r")


def test_what_was_looked_at_is_counted(it: Recorded) -> None:
    it.txn("w", {"a": 0})
    it.txn("w", ["b"], "fail")
    it.txn("w", ["c"], "info")
    it.poll("r", {0: "a"})
    it.found("r", None)
    assert it.verdict().tally == {
        "events": 11, "processes": 2, "partitions": 1, "transactions": 3,
        "transactions committed": 1, "transactions aborted": 1, "transactions unknown": 1,
        "values sent": 3, "values acknowledged": 1, "values read": 1, "records read": 1,
        "offsets of groups found": 1,
    }  # fmt: skip
