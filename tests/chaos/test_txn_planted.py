"""`barnabas verify` finds out every planted defect of transactions, and nothing where none is."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.chaos.broker_process import BrokerProcess
from tests.chaos.txn_planted_broker import DEFECTS, TxnPlantedBroker
from tests.chaos.txn_story import SETTINGS, Story

from barnabas.verify.findings import Verdict

_NONE = "none"
_AT_ONCE = 3
"""A story is mostly waiting."""

_NAMED = {
    "shows_open_transactions": "precommitted-read",
    "commits_what_was_aborted": "aborted-read",
    "aborts_a_part_of_what_was_committed": "torn-transaction",
    "forgets_a_marker": "torn-transaction",
    "keeps_offsets_of_what_was_aborted": "aborted-offset",
    "loses_offsets_of_what_was_committed": "lost-offset",
    "forgets_producers": "duplicate",
    "acknowledges_without_writing": "lost-write",
    "tells_of_no_aborts": "aborted-read",
    "compacts_open_transactions": "lost-write",
    "compacts_aborted_as_committed": "lost-write",
}
"""What a defect is, in the checker's words. Others may come with it: what compaction takes for good
that was aborted is lost, and whether somebody had read it by then is up to the machine."""


def _verdict(home: Path) -> Verdict:
    kind = BrokerProcess if home.name == _NONE else TxnPlantedBroker
    with kind(home, settings=SETTINGS) as broker:
        broker.start()
        return Story(broker).tell()


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Verdict]]]:
    home = tmp_path_factory.mktemp("stories")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield {name: pool.submit(_verdict, home / name) for name in (_NONE, *DEFECTS)}


def _sentences(verdict: Verdict) -> str:
    return "\n".join(f"{each.anomaly}: {each.sentence}" for each in verdict.findings)


def test_a_broker_without_defects_is_not_complained_of(
    verdicts: dict[str, Future[Verdict]],
) -> None:
    verdict = verdicts[_NONE].result()
    assert verdict.is_clean, _sentences(verdict)
    for what in ("transactions committed", "transactions aborted", "values read",
                 "offsets of groups found"):  # fmt: skip
        assert verdict.tally[what] > 1


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_named(defect: str, verdicts: dict[str, Future[Verdict]]) -> None:
    verdict = verdicts[defect].result()
    assert _NAMED[defect] in {each.value for each in verdict.counts}, _sentences(verdict)
