"""The directory of ZooKeeper servers: one user at a time, and always the same servers in it."""

import fcntl
from pathlib import Path
from typing import Final, TextIO

from barnabas.model.errors import BarnabasError

_MARK: Final = "ensemble"


class ZooKeeperFolder:
    """`mark`: how many servers there are in it, or which one of how many: `3` or `1/3`."""

    def __init__(self, directory: Path, mark: str) -> None:
        self.directory = directory
        self._mark = mark
        self._file: TextIO | None = None

    def take(self) -> None:
        """ZooKeeper itself would let two of them write to one directory.

        Raises BarnabasError when another process has it, or it is of other servers.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._file = (self.directory / _MARK).open("a+")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._check(self._file)
        except BlockingIOError as error:
            self.give_back()
            raise BarnabasError(
                f"Another ZooKeeper uses {self.directory}: stop that one, or choose another "
                "directory."
            ) from error
        except OSError as error:
            self.give_back()
            raise BarnabasError(
                f"ZooKeeper can not use the directory {self.directory}: {error.strerror}."
            ) from error
        except BarnabasError:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Others may take it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _check(self, file: TextIO) -> None:
        """Empty servers beside one with data could outvote it, and the data would be gone."""
        file.seek(0)
        before = file.read().strip()
        if not before:
            file.write(f"{self._mark}\n")
            file.flush()
        elif before != self._mark:
            wanted = _words(self._mark) if "/" in before + self._mark else self._mark
            raise BarnabasError(
                f"{self.directory} holds the data of {_words(before)}, not of {wanted}: "
                f"start it with {_options(before)}, or choose another directory."
            )


def _words(mark: str) -> str:
    number, _, count = mark.partition("/")
    return f"server {number} of {count} machines" if count else f"an ensemble of {number}"


def _options(mark: str) -> str:
    number, _, count = mark.partition("/")
    return f"--server {number} and {count} --peers" if count else f"--ensemble {number}"
