"""Topic subscriptions by regular expression (KIP-848): RE2's language, and whole names only.

RE2 takes time in proportion to the name, whatever the pattern; Python's own `re` can be made to
take for ever by one, and is never used here. Kafka's RE2/J speaks the same language, matches
against every topic there is, internal ones too, and its words for what is wrong are used.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from barnabas.model.errors import ErrorCode, KafkaError

TOPIC_REGEX_CHARS_MAX: Final = 8 * 1024
"""Every member may send another pattern, and the coordinator's log keeps it. This is room for the
names of hundreds of topics, written out."""

TOPIC_REGEX_MEMORY_BYTES_MAX: Final = 1024 * 1024
"""What one compiled pattern may take, its cache of states included. RE2's module keeps the last
128 of them. A pattern that does not fit is refused; a cache that does not fit is done without."""

_SHOWN_CHARS_MAX: Final = 200  # of a refused pattern, so that no answer grows with the request

_WORDS_OF_KAFKA: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}


@dataclass(frozen=True, slots=True)
class TopicRegex:
    """A compiled pattern. Two of the same pattern are equal."""

    pattern: str
    _full_match: Callable[[bytes], object | None] = field(repr=False, compare=False)

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole of `name`."""
        return self._full_match(name.encode("utf-8", "surrogatepass")) is not None

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of `names` that match."""
        return frozenset(filter(self.matches, names))


def compile_topic_regex(pattern: str) -> TopicRegex:
    """Compile a member's pattern, or raise INVALID_REGULAR_EXPRESSION with the reason."""
    if len(pattern) > TOPIC_REGEX_CHARS_MAX:
        raise _refusal(pattern, f"longer than {TOPIC_REGEX_CHARS_MAX} characters")
    try:
        encoded = pattern.encode()
    except UnicodeEncodeError as error:
        raise _refusal(pattern.encode(errors="replace").decode(), "invalid Unicode") from error
    re2 = _engine(pattern)
    options = re2.Options()
    options.max_mem = TOPIC_REGEX_MEMORY_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        compiled = re2.compile(encoded, options=options)
    except re2.error as error:
        raise _refusal(pattern, _reason(error)) from error
    return TopicRegex(pattern, compiled.fullmatch)


def _engine(pattern: str) -> Any:
    """RE2, loaded with the first pattern: most brokers never see one."""
    try:
        return import_module("re2")
    except ImportError as error:
        raise KafkaError(
            ErrorCode.invalid_regular_expression,
            f"SubscribedTopicRegex `{_shown(pattern)}` can not be served: this broker has no RE2 "
            "engine; `pip install google-re2` on it brings one.",
        ) from error


def _reason(error: Exception) -> str:
    """RE2 says `what: where`; Kafka says what, in words of its own."""
    said: bytes = error.args[0]
    what = said.decode(errors="replace").partition(": ")[0]
    return _WORDS_OF_KAFKA.get(what, what)


def _refusal(pattern: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.invalid_regular_expression,
        f"SubscribedTopicRegex `{_shown(pattern)}` is not a valid regular expression: {reason}.",
    )


def _shown(pattern: str) -> str:
    return pattern if len(pattern) <= _SHOWN_CHARS_MAX else f"{pattern[:_SHOWN_CHARS_MAX]}…"
