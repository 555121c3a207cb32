"""Offsets of a batch from Spark's journal."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.spark.errors import SparkJobError
from barnabas.spark.places import Place, offsets_to_json
from barnabas.spark.sink.journal import parse_offsets, source_offsets

ABOUT = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"a":"b"}}'


def test_offsets_of_all_sources_are_found() -> None:
    text = "\n".join(
        [
            "v1",
            ABOUT,
            '{"t": {"0": 10, "1": 4}}',
            "-",
            '{"t":{"1":3},"u":{"0":1}}',
            '{"logOffset":3}',
            "12",
        ]
    )
    assert parse_offsets(text, "p") == {Place("t", 0): 10, Place("t", 1): 3, Place("u", 0): 1}


def test_named_sources_are_read_too() -> None:
    text = "\n".join(["v2", ABOUT, '0:{"t": {"0": 10}}', 'orders:{"u": {"2": 5}}'])
    assert parse_offsets(text, "p") == {Place("t", 0): 10, Place("u", 2): 5}


@pytest.mark.parametrize("text", ["", "v9\n{}\n{}", "v1", f"v1\n{ABOUT}\n-", f"v1\n{ABOUT}\n[1]"])
def test_what_is_no_journal_of_topics_is_told(text: str) -> None:
    with pytest.raises(SparkJobError, match="leave"):
        parse_offsets(text, "p")


@given(st.text())
def test_any_text_is_offsets_or_a_sentence(text: str) -> None:
    with contextlib.suppress(SparkJobError):
        assert parse_offsets(f"v1\n{ABOUT}\n{text}", "p")


@given(
    st.dictionaries(
        st.builds(Place, st.from_regex(r"[a-z.]{1,9}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**63 - 1),
        min_size=1,
    )
)
def test_our_own_offsets_come_back(offsets: dict[Place, int]) -> None:
    text = f"v1\n{ABOUT}\n{json.dumps(offsets_to_json(offsets))}"
    assert parse_offsets(text, "p") == offsets


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_local_checkpoints_are_read_as_files(tmp_path: Path, scheme: str) -> None:
    odd = tmp_path / "check point"
    (odd / "offsets").mkdir(parents=True)
    (odd / "offsets" / "3").write_text(f'v1\n{ABOUT}\n{{"t": {{"0": 10}}}}')
    location = f"{scheme}{odd}" if not scheme else f"{scheme}{odd}".replace(" ", "%20")
    assert source_offsets(location, 3) == {Place("t", 0): 10}
    with pytest.raises(SparkJobError, match="can not be read"):
        source_offsets(location, 4)


def test_a_file_system_that_nobody_knows_is_told() -> None:
    with pytest.raises(SparkJobError, match="give the driver access"):
        source_offsets("nowhere://host/ck", 0)
