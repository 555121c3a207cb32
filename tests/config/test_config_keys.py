"""Parsing and printing values, and the tables as a whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.broker_keys import BROKER_KEYS, synonyms_of
from barnabas.config.keys import (
    LONG_MAX,
    ConfigType,
    Key,
    Value,
    format_value,
    parse_value,
)
from barnabas.config.topic_keys import TOPIC_KEYS
from barnabas.model.errors import ErrorCode, KafkaError

EVERY_KEY = [*TOPIC_KEYS.values(), *BROKER_KEYS.values()]


def key_of(type_: ConfigType) -> Key:
    return Key(name="some.key", type=type_, default=None, doc="")


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_every_default_is_a_value_the_key_accepts(key: Key) -> None:
    text = format_value(key.default)
    if text is not None:
        assert parse_value(key, text) == key.default
    assert key.doc.endswith(".")


def test_topic_keys_are_those_of_kafka_4_3() -> None:
    assert len([key for key in TOPIC_KEYS.values() if not key.internal]) == 33
    assert "message.downconversion.enable" not in TOPIC_KEYS


def test_every_synonym_of_a_topic_key_is_a_broker_key() -> None:
    for key in TOPIC_KEYS.values():
        assert all(synonym.name in BROKER_KEYS for synonym in key.synonyms)
        if key.synonyms:
            names = tuple(synonym.name for synonym in key.synonyms)
            assert synonyms_of(names[0]) == names


VALUES = {
    ConfigType.BOOLEAN: st.booleans(),
    ConfigType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ConfigType.INT: st.integers(-(2**31), 2**31 - 1),
    ConfigType.LONG: st.integers(-(2**63), LONG_MAX),
    ConfigType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ConfigType.LIST: st.lists(st.from_regex(r"[a-z0-9:*]+", fullmatch=True)).map(tuple),
    ConfigType.STRING: st.text().map(str.strip),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda t: st.tuples(st.just(t), VALUES[t])))
def test_a_printed_value_parses_back(typed: tuple[ConfigType, Value]) -> None:
    type_, value = typed
    text = format_value(value)
    assert text is not None
    assert parse_value(key_of(type_), f" {text} ") == value


@given(st.sampled_from(EVERY_KEY), st.text())
def test_any_text_is_parsed_or_refused_with_invalid_config(key: Key, text: str) -> None:
    refused: KafkaError | None = None
    try:
        value = parse_value(key, text)
    except KafkaError as error:
        refused = error
    if refused is None:
        assert parse_value(key, format_value(value) or "") == value
    else:
        assert refused.code is ErrorCode.invalid_config
        assert refused.message.startswith(f"Invalid value {text} for configuration {key.name}: ")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (ConfigType.INT, str(2**31)),
        (ConfigType.LONG, str(2**63)),
        (ConfigType.SHORT, "40000"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "\u0661"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.INT, ""),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "1_0.0"),
        (ConfigType.BOOLEAN, "yes"),
    ],
)
def test_what_java_would_not_parse_is_refused(type_: ConfigType, text: str) -> None:
    with pytest.raises(KafkaError, match=r"for configuration some\.key: "):
        parse_value(key_of(type_), text)


def test_numbers_are_printed_as_java_prints_them() -> None:
    assert format_value(0.5) == "0.5"
    assert format_value(1.0) == "1.0"
    assert format_value(0.00015) == "1.5E-4"
    assert format_value(1e7) == "1.0E7"
    assert format_value(LONG_MAX) == "9223372036854775807"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("retention.ms", "soon", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("min.cleanable.dirty.ratio", "2", "Value must be no more than 1"),
        ("message.timestamp.type", "Now", "String must be one of: CreateTime, LogAppendTime"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("cleanup.policy", "delete,delete", "values must not be duplicated"),
    ],
)
def test_mistakes_are_named_as_kafka_names_them(name: str, text: str, problem: str) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_value(TOPIC_KEYS[name], text)
    assert caught.value.code is ErrorCode.invalid_config
    assert caught.value.message == f"Invalid value {text} for configuration {name}: {problem}"


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [
        ("remote.storage.enable", "false", "true"),
        ("local.retention.ms", "-2", "5"),
        ("preallocate", "FALSE", "true"),
    ],
)
def test_what_can_not_be_honoured_is_refused_unless_it_is_the_default(
    name: str, default: str, other: str
) -> None:
    assert parse_value(TOPIC_KEYS[name], default) == TOPIC_KEYS[name].default
    with pytest.raises(KafkaError, match=f"Invalid value {other} for configuration {name}: "):
        parse_value(TOPIC_KEYS[name], other)


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1,1:2"])
def test_throttled_replicas_are_a_star_or_pairs(text: str) -> None:
    parse_value(TOPIC_KEYS["leader.replication.throttled.replicas"], text)
    with pytest.raises(KafkaError):
        parse_value(TOPIC_KEYS["leader.replication.throttled.replicas"], text + ",x")


def test_gzip_level_is_minus_one_or_one_to_nine() -> None:
    key = TOPIC_KEYS["compression.gzip.level"]
    assert [parse_value(key, text) for text in ("-1", "1", "9")] == [-1, 1, 9]
    for text in ("0", "10", "-2"):
        with pytest.raises(KafkaError):
            parse_value(key, text)


def test_a_secret_is_not_repeated_in_the_error() -> None:
    key = Key(
        name="some.password",
        type=ConfigType.PASSWORD,
        default=None,
        doc="",
        check=lambda _: "too short",
    )
    with pytest.raises(KafkaError) as caught:
        parse_value(key, "hunter2")
    assert "hunter2" not in caught.value.message
