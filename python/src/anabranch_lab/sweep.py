"""A sweep in shards: where each has its results, and the commands that make and merge them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch_lab import program
from anabranch_lab.failure import Exit, Failure

JOURNAL = "journal.jsonl"
# How the line of a finished run begins; others say what was asked for.
RUN = b'{"job":'
# Has results of different versions of the program mixed.
FORCE = "--force"
# More are of no use: a shard takes a process of its own.
MAX_SHARDS = 100_000


@dataclass(frozen=True)
class Sweep:
    """What `lab run` is told, beside the shard and its directory."""

    what: str
    out: Path
    shards: int
    threads: int
    # Files in them have the same names on every machine.
    options: tuple[str, ...] = ()
    binary: str | None = None

    def folder(self, index: int) -> Path:
        """Where a shard has its results."""
        return shards_of(self.out) / str(index)

    def check(self) -> None:
        """Fail, before anything runs, if the program would not take the options or the directory."""
        with tempfile.TemporaryDirectory() as empty:
            # The last of so many shards has no runs, but all is checked and its journal tells the plan.
            last = f"{10**9 - 1}/{10**9}"
            command = [program.find(self.binary), "lab", "run", self.what, *self.options]
            ended = program.run([*command, "--shard", last, "--out", empty])
            if ended.status != 0:
                raise Failure(max(ended.status, Exit.FAILED), ended.said)
            wanted = header(Path(empty))
        if FORCE in self.options:
            return
        for directory in [self.out, *map(self.folder, range(self.shards))]:
            if header(directory) not in (None, wanted):
                remedy = "name another directory with --out, or remove this one"
                raise Failure(Exit.USAGE, f"{directory}: has runs of another experiment or commit; {remedy}")

    def merge(self) -> None:
        """Bring the shards together in `out`; the table that comes out goes to standard output."""
        folders = [str(self.folder(index)) for index in range(self.shards)]
        command = [program.find(self.binary), "lab", "merge", *folders, "--out", str(self.out)]
        command += [FORCE] if FORCE in self.options else []
        ended = program.run(command, show=True)
        if ended.status != 0:
            raise Failure(max(ended.status, Exit.FAILED), ended.said)


def shards_of(out: Path) -> Path:
    """Where the shards of a directory of results are."""
    return out / "shards"


def begun(out: Path) -> int:
    """Count the shards that an earlier command began there."""
    folder = shards_of(out)
    return sum(1 for one in folder.iterdir() if one.name.isdigit()) if folder.is_dir() else 0


def header(directory: Path) -> bytes | None:
    """What a journal is of: its first line, if there is one."""
    try:
        with (directory / JOURNAL).open("rb") as journal:
            return journal.readline() or None
    except FileNotFoundError:
        return None


class Counter:
    """Counts the runs in the journals of shards as they grow, reading nothing twice."""

    def __init__(self, folders: list[Path]) -> None:
        """Begin at nothing."""
        self._ends = dict.fromkeys(folders, 0)
        self._runs = dict.fromkeys(folders, 0)

    def runs(self) -> int:
        """Runs that are written down so far."""
        for folder, end in self._ends.items():
            try:
                with (folder / JOURNAL).open("rb") as journal:
                    journal.seek(end)
                    for line in journal:
                        # The last line may be half written.
                        if not line.endswith(b"\n"):
                            break
                        self._ends[folder] += len(line)
                        self._runs[folder] += line.startswith(RUN)
            except OSError:
                # Not there yet, or not here; it only makes the count smaller.
                continue
        return sum(self._runs.values())
