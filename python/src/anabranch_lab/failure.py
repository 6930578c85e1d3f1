"""Failures of the command: a message of one line, and an exit status for scripts."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit statuses. Those that `anabranch` has too are equal."""

    FAILED = 1
    USAGE = 2
    IO = 8
    INTERRUPTED = 10


class Failure(Exception):
    """Failure with a message of one line."""

    def __init__(self, status: int, what: str) -> None:
        """Create a failure with `status`. Line breaks in `what` become spaces."""
        super().__init__(" ".join(what.split()))
        self.status = status
