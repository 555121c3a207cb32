"""How a format decodes: expressions over the bytes of a value, each computed once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Decoder:
    """Three steps of decoding; each sees the columns of the one before."""

    decoded: "Column"
    """Over the bytes: everything that parsing them gives, as one column."""
    columns: "Mapping[str, Column]"
    """Over `decoded`: what the source's rows have."""
    problem: "Column | None"
    """Over `decoded` and the bytes: why a value, if there is one, is no row; null if it is."""
