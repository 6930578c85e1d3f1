"""One shard, run on a machine that Ray chooses.

Arguments and results are plain values, because workers may lack this package.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TypedDict

from anabranch_lab import program
from anabranch_lab.failure import Exit, Failure

# Part of the program's message if another process uses the directory.
IN_USE = "another process is writing its results there"
# Seconds before a shard is started again.
PAUSE_S = 2.0


class Work(TypedDict):
    """Work of one task."""

    index: int
    # Arguments of `anabranch`, without the directory.
    arguments: list[str]
    binary: str | None
    # Base directory of relative names. If the worker lacks it, the job's working directory is used.
    directory: str
    # Directory of the shard on shared storage; not used if files are gathered.
    folder: str
    # Name of the shard's directory on the worker's own disk if files are gathered, otherwise `None`.
    scratch: str | None
    # Journal that an earlier command gathered, if any.
    journal: bytes | None
    # Maximum number of times that a killed child is started again.
    retries: int


class Outcome(TypedDict):
    """Result of a task: the exit status, its reason, and the gathered files."""

    status: int
    said: str
    files: dict[str, bytes]


def run(work: Work) -> Outcome:
    """Run a shard. Run it again if its process is killed; runs in its journal are not repeated."""
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
    """Return the directory to work in."""
    if work["scratch"] is None:
        folder = Path(work["folder"])
        if not folder.is_dir():
            remedy = "give --gather, or put --out on storage that all machines see"
            raise Failure(Exit.IO, f"{os.uname().nodename} does not see {folder}: {remedy}")
        return folder
    folder = Path(tempfile.gettempdir()) / work["scratch"]
    folder.mkdir(mode=0o700, exist_ok=True)
    journal = folder / "journal.jsonl"
    # A journal of a killed worker on this machine is newer than the gathered one.
    if work["journal"] is not None and not journal.exists():
        journal.write_bytes(work["journal"])
    return folder


def gather(folder: Path) -> dict[str, bytes]:
    """Return the files of a shard, and remove its directory."""
    files = [name for name in folder.rglob("*") if name.is_file() and name.name != "lock"]
    contents = {str(name.relative_to(folder)): name.read_bytes() for name in files}
    shutil.rmtree(folder, ignore_errors=True)
    return contents


def persist(command: list[str], directory: str | None, retries: int) -> program.Ended:
    """Run a command until it ends by itself, at most `retries` further times."""
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
