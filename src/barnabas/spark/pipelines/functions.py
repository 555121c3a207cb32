"""Python functions of a pipeline: found by `module:function`, next to the file or installed."""

import datetime
import decimal
import importlib
import importlib.machinery
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable
from typing import Any, Final

from barnabas.spark.pipelines.definition import Function
from barnabas.spark.pipelines.places import PipelineError, Text
from barnabas.spark.pipelines.problems import meant, shown

_TYPES: Final[dict[Any, str]] = {
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bool: "BOOLEAN",
    bytes: "BINARY",
    datetime.datetime: "TIMESTAMP",
    datetime.date: "DATE",
    decimal.Decimal: "DECIMAL(38,18)",
}
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def load(python: Text, folder: str) -> Callable[..., Any]:
    """The function; the pipeline's folder comes first when modules are looked for.

    Modules of that folder go to executors by value, so that they need not be there. Raises
    PipelineError with the place in the pipeline file, and that of an error in the module.
    """
    module_name, _, path = python.value.partition(":")
    _put_first(folder)
    _forget_namesake(module_name, folder, python)
    module = _imported(module_name, folder, python)
    _send_by_value(folder)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            names = [name for name in vars(found) if callable(getattr(found, name))]
            raise PipelineError(
                python.at,
                f"{_place_of(module)} has no function {shown(path)}{meant(part, names)}",
            )
        found = getattr(found, part)
    if not callable(found):
        kind = type(found).__name__
        raise PipelineError(
            python.at, f"{shown(python.value)} is no function, but a value of type {kind}."
        )
    return typing.cast(Callable[..., Any], found)


def returned_type(function: Function, loaded: Callable[..., Any]) -> str:
    """The type SQL sees: `returns` of the file, or else what the function's annotation says."""
    if function.returns is not None:
        return function.returns.value
    declared = getattr(loaded, "returnType", None)  # a function that pyspark's udf() has wrapped
    if declared is not None:
        return str(declared.simpleString()).upper()
    label = f"functions.{function.name}"
    try:
        annotation = typing.get_type_hints(loaded).get("return", Any)
    except (NameError, TypeError, AttributeError) as error:
        raise PipelineError(
            function.at,
            f"{label} has annotations that can not be understood ({error}): add returns, as in "
            "returns: DOUBLE.",
        ) from error
    found = _sql_type(annotation)
    if found is None:
        says = "no annotation" if annotation is Any else f"the annotation {_named(annotation)}"
        raise PipelineError(
            function.at,
            f"{label} has {says}, which no type of SQL's follows from: add returns, as in "
            "returns: DOUBLE.",
        )
    return found


def _sql_type(annotation: Any) -> str | None:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not types.NoneType]
        return _sql_type(others[0]) if len(others) == 1 else None
    inner = [_sql_type(argument) for argument in arguments]
    if None in inner:
        return None
    if origin is list:
        return f"ARRAY<{inner[0]}>"
    if origin is dict:
        return f"MAP<{inner[0]},{inner[1]}>"
    return None


def _named(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else shown(str(annotation))


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # a module may be younger than what was seen of the folder


def _forget_namesake(name: str, folder: str, python: Text) -> None:
    """Make room for a module of this folder where another of the same name is loaded.

    One that came from another pipeline's folder goes; any other is in use, which is an error.
    """
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    here = importlib.machinery.PathFinder.find_spec(top, [folder])
    if loaded is None or here is None or _lies_in(loaded, folder):
        return
    if top not in _ours:
        raise PipelineError(
            python.at,
            f"{shown(name)} is also the name of a module that is loaded already "
            f"({_place_of(loaded)}): rename the one next to the pipeline file.",
        )
    for other in [one for one in sys.modules if one == top or one.startswith(f"{top}.")]:
        del sys.modules[other]


_ours: Final[set[str]] = set()
"""Modules that came out of folders of pipelines."""


def _imported(name: str, folder: str, python: Text) -> types.ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise PipelineError(
                python.at,
                f"there is no module {shown(error.name)}, neither next to the pipeline file nor "
                f"installed{meant(error.name, _modules_in(folder))}",
            ) from None
        raise _failed(error, folder, python) from error
    except (Exception, SystemExit) as error:
        raise _failed(error, folder, python) from error


def _failed(error: BaseException, folder: str, python: Text) -> PipelineError:
    """With the line of the module on which it happened."""
    module = python.value.partition(":")[0]
    if isinstance(error, SyntaxError) and error.filename:
        file, line, what = error.filename, error.lineno, error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if _under(frame.filename, folder)] or list(frames)
        file, line = own[-1].filename, own[-1].lineno
        what = str(error)
    place = f"{os.path.relpath(file, folder) if _under(file, folder) else file}:{line}"
    says = f"{type(error).__name__}: {what}" if what else type(error).__name__
    return PipelineError(python.at, f"{module} can not be imported: {place}: {says}.")


def _modules_in(folder: str) -> list[str]:
    try:
        return [name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py")]
    except OSError:
        return []


def _send_by_value(folder: str) -> None:
    """All modules of the folder, for the one that was asked for may import others."""
    from pyspark import cloudpickle

    for name, module in list(sys.modules.items()):
        if name != "__main__" and _lies_in(module, folder):
            _ours.add(name)
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _lies_in(module: Any, folder: str) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and _under(file, folder)


def _under(file: str, folder: str) -> bool:
    """Whether a file is the folder's own: an environment in it has modules of its own."""
    inside = os.path.relpath(os.path.realpath(file), os.path.realpath(folder)).split(os.sep)
    return inside[0] != os.pardir and _INSTALLED.isdisjoint(inside)


def _place_of(module: Any) -> str:
    return str(getattr(module, "__file__", None) or module.__name__)
