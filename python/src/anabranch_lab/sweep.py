"""A sweep in shards: the directories of their results, and the commands that run and merge them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch_lab import program
from anabranch_lab.failure import Exit, Failure

JOURNAL = "journal.jsonl"
# Start of the line of a finished run. Other lines state the requested runs.
RUN = b'{"job":'
# Option that permits mixing results of different versions of the program.
FORCE = "--force"
# Maximum number of shards. More are useless, because each needs its own process.
MAX_SHARDS = 100_000


@dataclass(frozen=True)
class Sweep:
    """Arguments of `lab run`, except the shard and its directory."""

    what: str
    out: Path
    shards: int
    threads: int
    # Files named in the options must have the same names on every machine.
    options: tuple[str, ...] = ()
    binary: str | None = None

    def folder(self, index: int) -> Path:
        """Return the directory of a shard's results."""
        return shards_of(self.out) / str(index)

    def check(self) -> None:
        """Fail before any run if the program would reject the options or the directory."""
        with tempfile.TemporaryDirectory() as empty:
            # The last of a billion shards is empty, but the program checks everything and writes a
            # journal.
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
        """Merge the shards into `out`, and print the table of results to standard output."""
        folders = [str(self.folder(index)) for index in range(self.shards)]
        command = [program.find(self.binary), "lab", "merge", *folders, "--out", str(self.out)]
        command += [FORCE] if FORCE in self.options else []
        ended = program.run(command, show=True)
        if ended.status != 0:
            raise Failure(max(ended.status, Exit.FAILED), ended.said)


def shards_of(out: Path) -> Path:
    """Return the folder of the shards in a directory of results."""
    return out / "shards"


def begun(out: Path) -> int:
    """Count the shards that an earlier command started in `out`."""
    folder = shards_of(out)
    return sum(1 for one in folder.iterdir() if one.name.isdigit()) if folder.is_dir() else 0


def header(directory: Path) -> bytes | None:
    """Return the header of a directory's journal: its first line, if it exists."""
    try:
        with (directory / JOURNAL).open("rb") as journal:
            return journal.readline() or None
    except FileNotFoundError:
        return None


class Counter:
    """Counter of the runs in growing journals of shards. Each line is read only once."""

    def __init__(self, folders: list[Path]) -> None:
        """Start with no runs."""
        self._ends = dict.fromkeys(folders, 0)
        self._runs = dict.fromkeys(folders, 0)

    def runs(self) -> int:
        """Return the number of recorded runs so far."""
        for folder, end in self._ends.items():
            try:
                with (folder / JOURNAL).open("rb") as journal:
                    journal.seek(end)
                    for line in journal:
                        # The last line may be incomplete.
                        if not line.endswith(b"\n"):
                            break
                        self._ends[folder] += len(line)
                        self._runs[folder] += line.startswith(RUN)
            except OSError:
                # The journal does not exist yet, or is not on this machine. The count is then too small.
                continue
        return sum(self._runs.values())
