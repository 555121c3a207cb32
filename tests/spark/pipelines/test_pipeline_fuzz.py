"""Whatever stands in a pipeline file: it is read, or refused with sentences, and always alike."""

import random
import re
import tempfile
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.pipelines.pipeline_files import GOOD

from barnabas.spark.pipelines import graph, reading
from barnabas.spark.pipelines.definition import Pipeline
from barnabas.spark.pipelines.reading import PipelineErrors

_PLACE = re.compile(r"(?:.*/p\.yaml(?::[1-9][0-9]*)?[: ]|There is no file ).+[.?]")
_WORDS = sorted(set(re.findall(r"[\w./-]+|[^\w\s]|\n *", GOOD)))

_KEYS = sorted(set(re.findall(r"(\w+):", GOOD)))

_scalars = (
    st.sampled_from(_WORDS) | st.text(max_size=12) | st.none() | st.booleans() | st.integers()
)
_documents = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=6)
    ),
    max_leaves=8,
)
_things = st.dictionaries(st.sampled_from(_KEYS), _documents, max_size=4)
_pipelines = st.fixed_dictionaries(
    {"pipeline": st.just("a"), "servers": st.just("h:1")},
    optional={
        kind: st.dictionaries(st.sampled_from(["a", "b", "c d"]), _things, max_size=2)
        for kind in ("sources", "steps", "sinks")
    },
)


def _read(data: bytes) -> Pipeline | str:
    """What comes of it; anything else than sentences with a place is an error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.yaml"
        path.write_bytes(data)
        try:
            pipeline = reading.read(str(path), {"HOME": "/root"})
        except PipelineErrors as errors:
            _check_sentences(errors)
            return str(errors).replace(folder, "")
        for sink in pipeline.sinks:
            assert graph.needed(pipeline, sink)
        graph.warnings(pipeline)
        return str(pipeline).replace(folder, "")


def _check_sentences(errors: PipelineErrors) -> None:
    assert errors.problems
    for problem in errors.problems:
        assert _PLACE.fullmatch(str(problem)), str(problem)
    lines = [problem.at.line for problem in errors.problems if problem.at is not None]
    assert lines == sorted(lines)


def _check(data: bytes) -> None:
    assert _read(data) == _read(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    _check(data)


@given(st.text(alphabet="ab:-[]{},&*!|>'\"%@`#? \n\t$<~\\x0", max_size=60))
def test_any_signs_of_yaml(text: str) -> None:
    _check(text.encode())


@given(_documents | _pipelines)
@settings(max_examples=200)
def test_any_document(document: object) -> None:
    _check(yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=200)
def test_a_good_file_with_pieces_changed(seed: int, changes: int) -> None:
    chance = random.Random(seed)
    text = GOOD
    for _ in range(changes):
        start = chance.randrange(len(text))
        end = min(len(text), start + chance.choice([0, 1, 2, 5, 20]))
        piece = chance.choice([chance.choice(_WORDS), "", text[end : end + 9], "${X}", "\t", "'"])
        text = text[:start] + piece + text[end:]
    _check(text.encode())


@given(st.integers(0, len(GOOD.encode())))
def test_a_good_file_cut_short(length: int) -> None:
    _check(GOOD.encode()[:length])
