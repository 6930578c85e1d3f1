"""One shard, on whatever machine Ray gives it. Plain values come and go: workers may lack this package."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TypedDict

from anabranch_lab import program
from anabranch_lab.failure import Exit, Failure

# What the program says of a directory in which another process is at work.
IN_USE = "another process is writing its results there"
# Before a shard is begun once more.
PAUSE_S = 2.0


class Work(TypedDict):
    """What a worker is to do."""

    index: int
    # After `anabranch`, up to the directory.
    arguments: list[str]
    binary: str | None
    # Where relative names lead from, if the worker has it; a job's working directory otherwise.
    directory: str
    # Of the shard, on storage that all machines see; not used if files are to be gathered.
    folder: str
    # Names the shard's directory on the worker's own disk if its files are to be gathered.
    scratch: str | None
    # What an earlier command has gathered.
    journal: bytes | None
    # How often a child that was killed is started again.
    retries: int


class Outcome(TypedDict):
    """What came of it: a status and why, and the files if they are to be gathered."""

    status: int
    said: str
    files: dict[str, bytes]


def run(work: Work) -> Outcome:
    """Run a shard, again if its process is killed. What its journal has is not repeated."""
    try:
        folder = prepare(work)
        command = [program.find(work["binary"]), *work["arguments"], "--out", str(folder)]
        directory = work["directory"] if Path(work["directory"]).is_dir() else None
        ended = persist(command, directory, work["retries"])
        gathered = work["scratch"] is not None and ended.status == 0
        files = gather(folder) if gathered else {}
    except Failure as failure:
        return {"status": failure.status, "said": str(failure), "files": {}}
    except OSError as error:
        return {"status": Exit.IO, "said": f"{os.uname().nodename}: {error}", "files": {}}
    return {"status": int(ended.status), "said": ended.said, "files": files}


def prepare(work: Work) -> Path:
    """Give the directory to work in."""
    if work["scratch"] is None:
        folder = Path(work["folder"])
        if not folder.is_dir():
            remedy = "give --gather, or put --out on storage that all machines see"
            raise Failure(Exit.IO, f"{os.uname().nodename} does not see {folder}: {remedy}")
        return folder
    folder = Path(tempfile.gettempdir()) / work["scratch"]
    folder.mkdir(mode=0o700, exist_ok=True)
    journal = folder / "journal.jsonl"
    # A worker that was killed here has left more.
    if work["journal"] is not None and not journal.exists():
        journal.write_bytes(work["journal"])
    return folder


def gather(folder: Path) -> dict[str, bytes]:
    """Take the files of a shard, and leave nothing."""
    files = [name for name in folder.rglob("*") if name.is_file() and name.name != "lock"]
    contents = {str(name.relative_to(folder)): name.read_bytes() for name in files}
    shutil.rmtree(folder, ignore_errors=True)
    return contents


def persist(command: list[str], directory: str | None, retries: int) -> program.Ended:
    """Run a command until it ends by itself, at most so many times more."""
    for attempt in range(retries + 1):
        ended = program.run(command, directory=directory)
        if ended.status >= 0 and IN_USE not in ended.said:
            return ended
        if attempt < retries:
            time.sleep(PAUSE_S)
    if ended.status >= 0:
        return ended
    times = f"{retries + 1} times" if retries else "once"
    return program.Ended(Exit.FAILED, f"its process was killed by signal {-ended.status}, {times}")
