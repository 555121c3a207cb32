"""Points in time, sizes, tables and bytes, as people write and read them."""

import datetime
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.client import addresses
from barnabas.cli.lines import LineRules, NewMessage, messages
from barnabas.cli.moments import (
    AtOffset,
    AtTime,
    Beginning,
    End,
    LastRecords,
    parse_moment,
    parse_start,
)
from barnabas.cli.output import json_bytes, readable_size, readable_time, table
from barnabas.model.errors import BarnabasError


def test_places_to_begin() -> None:
    assert parse_start("beginning") == Beginning()
    assert parse_start("end") == End()
    assert parse_start("earliest") == Beginning()
    assert parse_start("latest") == End()
    assert parse_start("0") == AtOffset(0)
    assert parse_start("-5") == LastRecords(5)
    assert parse_start("2026-01-02T03:04:05Z") == AtTime(1767323045000)


@pytest.mark.parametrize(("text", "ago_s"), [("-10m", 600), ("-1.5h", 5400), ("-2d", 172800)])
def test_times_ago(text: str, ago_s: int) -> None:
    before = time.time() * 1000
    found = parse_moment(text)
    after = time.time() * 1000
    assert before - ago_s * 1000 - 1 <= found <= after - ago_s * 1000


def test_a_date_without_a_zone_is_local() -> None:
    local = datetime.datetime(2026, 1, 2, 3, 4, 5).astimezone()
    assert parse_moment("2026-01-02T03:04:05") == int(local.timestamp() * 1000)


@pytest.mark.parametrize("text", ["", "soon", "-10x", "--5", "2026-13-01", "1e3"])
def test_what_is_no_point_in_time(text: str) -> None:
    with pytest.raises(BarnabasError):
        parse_start(text)


def test_addresses() -> None:
    assert addresses("a:1, b:2") == [("a", 1), ("b", 2)]
    assert addresses("[::1]:9093") == [("::1", 9093)]
    assert addresses("broker") == [("broker", 9092)]
    assert addresses("[::1]") == [("::1", 9092)]
    for wrong in ("", "a:b", ":1", "a:70000"):
        with pytest.raises(BarnabasError):
            addresses(wrong)


def test_sizes_and_times() -> None:
    assert [readable_size(size) for size in (0, 1023, 1536, 5 << 30, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "5.0 GiB", "3.0 TiB",
    ]  # fmt: skip
    assert readable_time(1767323045678) == "2026-01-02T03:04:05.678Z"
    assert readable_time(-1) == "-"
    assert readable_time(2**62) == str(2**62)


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert table(("name", "n"), [("a", 1), ("long", 100), ("b", None)]) == (
        "name    n\na       1\nlong  100\nb       -"
    )


def test_bytes_in_json() -> None:
    assert json_bytes(None) is None
    assert json_bytes("ü".encode()) == "ü"
    assert json_bytes(b"\xff") == {"base64": "/w=="}


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line), max_size=5))
def test_every_line_is_a_message_with_the_same_bytes(lines: list[bytes]) -> None:
    found = list(messages([line + b"\n" for line in lines], LineRules(key=b"k", partition=3)))
    assert found == [NewMessage(b"k", line, [], 3, None) for line in lines]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[]", "object"),
        (b'{"value": 1, "partition": "x"}', "partition"),
        (b'{"value": 1, "partition": true}', "partition"),
        (b'{"value": {"base64": "!"}}', "base64"),
        (b'{"value": 1, "headers": [["only"]]}', "header"),
        (b'{"value": 1, "headers": [[null, "x"]]}', "name"),
        (b'{"value": 1, "headers": 5}', "headers"),
        (b"\xff", "JSON"),
    ],
)
def test_json_lines_that_make_no_sense(line: bytes, problem: str) -> None:
    with pytest.raises(BarnabasError, match=f"Line 1 .*{problem}"):
        list(messages([line], LineRules(from_json=True)))


def test_headers_as_an_object_and_values_of_any_kind() -> None:
    line = b'{"value": [1, "\\u00fc"], "headers": {"a": "1", "b": null}, "timestamp": 5}'
    (found,) = messages([line], LineRules(from_json=True, headers=[("x", b"y")]))
    assert found == NewMessage(
        None, '[1,"ü"]'.encode(), [("x", b"y"), ("a", b"1"), ("b", None)], None, 5
    )
