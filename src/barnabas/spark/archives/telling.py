"""What a person sees of an archive or a replay at work, on stderr; a program reads JSON lines."""

import json
import sys
from typing import Final

from barnabas.spark.archives.archiving import Progress
from barnabas.spark.archives.contents import Contents
from barnabas.spark.archives.replaying import Replayed

_BAR_WIDTH: Final = 30


class ArchiveLines:
    """A line for each batch."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def progress(self, progress: Progress) -> None:
        """After a batch."""
        if self._as_json:
            _print_json({"event": "batch", **progress._asdict()})
            return
        _say(
            f"{progress.records:,} records more: {progress.total:,} in {progress.files:,} files, "
            f"{progress.lag:,} behind"
        )

    def end(self, contents: Contents) -> None:
        """Done, or stopped."""
        files = len(contents.snapshot.files)
        if self._as_json:
            ranges = {str(partition): list(each) for partition, each in contents.ranges.items()}
            _print_json(
                {
                    "event": "end",
                    "topic": contents.topic,
                    "folder": contents.folder,
                    "records": contents.records,
                    "files": files,
                    "ranges": ranges,
                }
            )
            return
        _say(f"{contents.folder} holds {contents.records:,} records in {files:,} files.")


class ReplayBar:
    """A bar that grows on a terminal; lines elsewhere."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._on_terminal = sys.stderr.isatty()

    def progress(self, told: Replayed) -> None:
        """After a chunk."""
        if self._as_json:
            _print_json(_event("chunk", told))
            return
        text = f"{told.chunks:,} of {told.of_chunks:,} chunks, about {told.records:,} records"
        if not self._on_terminal:
            _say(text)
            return
        full = _BAR_WIDTH * told.chunks // max(told.of_chunks, 1)
        bar = "#" * full + "." * (_BAR_WIDTH - full)
        ending = "\n" if told.chunks == told.of_chunks else ""
        print(f"\r[{bar}] {text}", end=ending, file=sys.stderr, flush=True)

    def end(self, told: Replayed) -> None:
        """All of it is in the topic."""
        if self._as_json:
            _print_json(_event("end", told))
        else:
            _say(f"Replayed about {told.records:,} records.")


def _event(name: str, told: Replayed) -> dict[str, object]:
    return {
        "event": name,
        "chunks": told.chunks,
        "of_chunks": told.of_chunks,
        "records": told.records,
    }


def _print_json(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
