"""Which seed finds which planted mistake, and as what.

A mistake breaks certain promises. A seed that fails of another has found something else, be it a
mistake in the checks: that is no proof that they would notice this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Find:
    """The first seed that finds a mistake, and the promises that the mistake breaks."""

    seed: int
    promises: frozenset[str]


def _by(seed: int, *promises: str) -> Find:
    return Find(seed, frozenset(promises))


_LOST: Final = ("StrongIsr", "LeaderCompleteness", "LogMatching", "Acknowledged")
"""Somebody leads, or may, who has not everything that is committed."""

FOUND_BY: Final[Mapping[str, Find]] = {
    "acknowledged_before_it_is_committed": _by(0, "Acknowledged"),
    "groups_answer_before_they_have_committed": _by(14, "CommittedOffsets"),
    "readers_see_what_is_not_committed": _by(0, "ConsistentRead"),
    "the_end_of_a_transaction_counts_before_it_is_committed": _by(0, "StableOffset"),
    "a_new_leader_tells_an_end_that_it_does_not_know": _by(1, "MonotonicHighWatermark"),
    "cut_back_to_the_high_watermark": _by(0, *_LOST),
    "only_the_proposed_isr_counts": _by(0, "MaximalIsr"),
    "followers_join_before_they_have_caught_up": _by(3, *_LOST),
    "committed_with_too_few_in_sync": _by(0, "CommittedByEnough"),
    "what_followers_had_in_another_epoch_counts": _by(231, *_LOST),
    "a_follower_counts_for_what_it_had_in_a_former_life": _by(112, *_LOST),
    "nobody_looks_where_logs_part": _by(2, "LogMatching"),
    "epochs_that_the_leader_does_not_know_are_believed": _by(2, "LogMatching"),
    "the_controller_checks_no_versions": _by(2, "SingleLeader", *_LOST),
    "an_unclean_restart_stays_in_sync": _by(2, "SingleLeader", *_LOST),
    "anybody_is_elected": _by(1, *_LOST),
    "a_leader_goes_on_without_its_lease": _by(9, "Lease"),
    "a_move_ends_before_all_are_in_sync": _by(3, *_LOST),
    "who_is_to_go_goes_at_once": _by(3, "Kept"),
    "who_went_counts_for_what_it_had_when_it_comes_back": _by(5, "Fenced"),
    "names_are_not_synced": _by(0, "Beginning", "Durable"),
    "the_first_segment_is_not_named_first": _by(4, "Beginning"),
    "torn_batches_are_kept": _by(0, "LogMatching"),
    "what_is_not_synced_counts_as_if_it_were": _by(2, *_LOST),
    "producers_are_forgotten_at_start": _by(14, "StableOffset", "Once", "Order"),
    "repeated_batches_are_out_of_order": _by(0, "Liveness"),
}
"""Another broker has other stories: then it may be another seed."""
