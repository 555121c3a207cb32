"""Topic regexes: RE2's language, whole names, refusals in Kafka's words, no way to hang."""

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.coordinator.topic_regex import (
    TOPIC_REGEX_CHARS_MAX,
    TopicRegex,
    compile_topic_regex,
)
from barnabas.model.errors import ErrorCode, KafkaError

NAMES = ("orders", "orders.v2", "Orders", "payments", "__consumer_offsets")


def refusal(pattern: str) -> str:
    with pytest.raises(KafkaError) as caught:
        compile_topic_regex(pattern)
    assert caught.value.code is ErrorCode.invalid_regular_expression
    return caught.value.message


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (".*", set(NAMES)),
        ("orders", {"orders"}),
        ("order", set()),
        ("rders", set()),
        ("order|orders", {"orders"}),
        ("orders.*", {"orders", "orders.v2"}),
        (r"orders\.v\d", {"orders.v2"}),
        ("(?i)ORDERS", {"orders", "Orders"}),
        ("^payments$", {"payments"}),
        ("(?P<kind>orders)(?:[.]v[0-9])?", {"orders", "orders.v2"}),
        ("__.+", {"__consumer_offsets"}),
        (r"\Qorders.v2\E", {"orders.v2"}),
        ("", set()),
    ],
)
def test_whole_names_match(pattern: str, expected: set[str]) -> None:
    regex = compile_topic_regex(pattern)
    assert regex.matching(NAMES) == expected
    assert {name for name in NAMES if regex.matches(name)} == expected


def test_empty_pattern_matches_only_the_empty_name() -> None:
    assert compile_topic_regex("").matches("")
    assert not compile_topic_regex("").matches("a")


def test_characters_not_bytes_are_matched() -> None:
    assert compile_topic_regex("caf.").matches("café")
    assert compile_topic_regex("é{2}").matches("éé")
    assert compile_topic_regex(r"\p{Greek}+").matches("λογος")
    assert not compile_topic_regex(r"\p{Greek}+").matches("logos")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a)", "unexpected )"),
        ("a**", "invalid nested repetition operator"),
        ("*", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("[z-a]", "invalid character class range"),
        (r"\k", "invalid escape sequence"),
        (r"(a)\1", "invalid escape sequence"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<n", "invalid named capture"),
        ("\\", "trailing backslash at end of expression"),
        (r"\pL{500}", "expression too large"),
    ],
)
def test_invalid_patterns_are_refused_in_the_words_of_kafka(pattern: str, reason: str) -> None:
    expected = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    assert refusal(pattern) == expected


def test_nothing_is_logged_about_a_bad_pattern(capfd: pytest.CaptureFixture[str]) -> None:
    refusal("(")
    compile_topic_regex(r"(?:\pL|\d|[a-z]){30}.*(?:\w{20}|.{30})*").matches("a" * 249)
    assert capfd.readouterr() == ("", "")


def test_length_is_bounded_and_the_refusal_stays_short() -> None:
    assert compile_topic_regex("a" * TOPIC_REGEX_CHARS_MAX).matches("a" * TOPIC_REGEX_CHARS_MAX)
    message = refusal("a" * (TOPIC_REGEX_CHARS_MAX + 1))
    assert f"longer than {TOPIC_REGEX_CHARS_MAX} characters" in message
    assert len(message) < 500


def test_lone_surrogates_are_no_text() -> None:
    assert "invalid Unicode" in refusal("a\udc80")
    assert not compile_topic_regex("a+").matches("\udc80")


@pytest.mark.parametrize(
    "pattern",
    ["(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*)*(.*)*(.*)*b", "(a?){200}a{200}b", "((a+)+)+b"],
)
def test_patterns_that_make_a_backtracking_engine_hang(pattern: str) -> None:
    regex = compile_topic_regex(pattern)
    assert not regex.matches("a" * 10_000)
    assert regex.matches("a" * 249 + "b")


def test_equal_by_pattern() -> None:
    assert compile_topic_regex("a.*") == compile_topic_regex("a.*")
    assert compile_topic_regex("a.*") != compile_topic_regex("a.+")
    assert len({compile_topic_regex("b"), compile_topic_regex("b")}) == 1


def test_without_the_engine_the_refusal_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    assert "pip install google-re2" in refusal("orders.*")


def test_the_engine_is_not_loaded_before_the_first_pattern() -> None:
    program = "import sys, barnabas.coordinator.topic_regex; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), st.text("ab.*+?|()[]{}^$\\-,019:<>P=!idQEpLx", max_size=40)))
@example("a" * 300)
@example("\x00")
def test_any_text_compiles_or_is_refused(pattern: str) -> None:
    regex: TopicRegex | None = None
    refused: ErrorCode | None = None
    try:
        regex = compile_topic_regex(pattern)
    except KafkaError as error:
        refused = error.code
    if regex is None:
        assert refused is ErrorCode.invalid_regular_expression
    else:
        assert regex.matching(NAMES) <= set(NAMES)


@settings(deadline=None)
@given(st.text("abc._-", min_size=1, max_size=30), st.text("abc._-", max_size=30))
def test_a_quoted_name_matches_itself_only(name: str, other: str) -> None:
    regex = compile_topic_regex(rf"\Q{name}\E")
    assert regex.matches(name)
    assert regex.matches(other) == (other == name)
