"""How the command ends when something is wrong: one line, and a status that scripts can tell apart."""

from enum import IntEnum


class Exit(IntEnum):
    """Statuses, the same as those of `anabranch` where both have them."""

    FAILED = 1
    USAGE = 2
    IO = 8
    INTERRUPTED = 10


class Failure(Exception):
    """What is wrong, in one line."""

    def __init__(self, status: int, what: str) -> None:
        """Fail with `status`; line breaks in `what` become spaces."""
        super().__init__(" ".join(what.split()))
        self.status = status
