"""Why a text is no YAML, in sentences for people who did not mean to learn YAML."""

import re
from typing import Final

import yaml
from yaml.reader import ReaderError

from barnabas.spark.pipelines.places import At, PipelineError
from barnabas.spark.pipelines.problems import shown

_TAB: Final = "a tab stands where YAML wants spaces: indent with spaces."
_INDENTED_BY_TAB: Final = re.compile(r" *\t")

_SENTENCES: Final = {
    "mapping values are not allowed": (
        "a colon stands where no key can be: check the indentation, and quote a text which has "
        "a colon and a space in it."
    ),
    "expected <block end>": (
        "the indentation does not fit the lines above: keys that belong together begin in one "
        "column."
    ),
    "could not find expected ':'": "a key without a colon stands here: write `key: value`.",
    "expected ',' or '}'": (
        "the braces that begin here are not closed, or a text in them (as ${…} is one) must be "
        "quoted."
    ),
    "expected ',' or ']'": (
        "the brackets that begin here are not closed, or a text in them must be quoted."
    ),
    "found unexpected end of stream": "the quoted text that begins here is not closed.",
    "found undefined tag handle": (
        "a tag stands here, which has no meaning in a pipeline: leave it out, or quote the text."
    ),
    "cannot start any token": "a text can not begin with this letter in YAML: quote it.",
    "found unknown escape character": (
        "a text in double quotes has a backslash in it: write two, or take single quotes."
    ),
}
"""PyYAML's words, and ours."""

_BEGINS: Final = ("expected ',' or", "found unexpected end of stream")
"""Found at the end, but it is the beginning that wants mending."""


def syntax_error(error: yaml.YAMLError, text: str, file: str) -> PipelineError:
    """What PyYAML says, with the line on which something is to be done."""
    if isinstance(error, ReaderError):
        return _unprintable(error, text, file)
    if not isinstance(error, yaml.MarkedYAMLError):
        return PipelineError(At(file, 1), f"this is not YAML: {shown(str(error))}.")
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    if problem.startswith(_BEGINS) and error.context_mark is not None:
        mark = error.context_mark
    line = mark.line if mark is not None else 0
    at = At(file, line + 1)
    lines = text.splitlines()
    if line < len(lines) and _INDENTED_BY_TAB.match(lines[line]):
        return PipelineError(at, _TAB)
    for words, sentence in _SENTENCES.items():
        if words in problem:
            return PipelineError(at, sentence)
    context = f"{error.context}: " if error.context else ""
    return PipelineError(at, f"this is not YAML: {context}{shown(problem)}.")


def _unprintable(error: ReaderError, text: str, file: str) -> PipelineError:
    line = text.count("\n", 0, error.position) + 1
    letter = text[error.position : error.position + 1] or "\0"
    return PipelineError(
        At(file, line), f"the character U+{ord(letter):04X} can not stand in YAML: delete it."
    )
