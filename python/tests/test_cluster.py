"""Tiny sweeps on a local cluster, with the real program."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import anabranch_lab

pytest.importorskip("ray")

RESULTS = ["runs.parquet", "runs.csv", "timelines.jsonl"]
TINY = ["ccr22-heterogeneous-2path", "--points", "0,1", "--bytes", "200000"]
TINY += ["--variants", "single-cubic-original,multiple-cubic-original"]
# Sweep that takes long enough to be killed while it runs.
LONG = ["ccr22-heterogeneous-2path", "--points", "0,1,2,3,4,5", "--bytes", "20000000"]
LONG += ["--variants", "single-cubic-original,multiple-cubic-original"]
FRONT = [sys.executable, "-c", "from anabranch_lab.cli import main; main()"]
LOCAL = ["--address", "local", "--cpus", "2"]
TIMEOUT_S = 240


def alone(binary: str, options: list[str], out: Path) -> dict[str, bytes]:
    """Return the results of one machine without Ray."""
    command = [binary, "lab", "run", *options, "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return results(out)


def results(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in RESULTS}


def front(binary: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*FRONT, *arguments, "--binary", binary]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_gathered_shards_equal_one_machine(binary: str, tmp_path: Path) -> None:
    expected = alone(binary, TINY, tmp_path / "alone")
    out = tmp_path / "gathered"
    ended = front(binary, *TINY, "--out", str(out), "--shards", "3", "--gather", *LOCAL)
    assert ended.returncode == 0, ended.stderr
    assert "3 of 3 shards" in ended.stderr
    assert results(out) == expected
    assert anabranch_lab.read(out).num_rows == 4


def test_killed_processes_and_workers_change_nothing(
    binary: str, script: Callable[[str], str], tmp_path: Path
) -> None:
    expected = alone(binary, LONG, tmp_path / "alone")
    out = tmp_path / "shared"
    # Script that logs each start and is replaced by the program, so the test needs no timing.
    log = tmp_path / "starts"
    told = script(f'echo "$$ $PPID $*" >>"{log}"; exec "{binary}" "$@"')
    arguments = [*LONG, "--out", str(out), "--shards", "2", *LOCAL, "--binary", told]
    with started([*FRONT, *arguments]) as running:
        first, _ = wait(running, lambda: starts(log, out / "shards" / "0"))[0]
        os.kill(first, signal.SIGKILL)
        second, worker = wait(running, lambda: starts(log, out / "shards" / "1"))[0]
        os.kill(worker, signal.SIGKILL)
        _, said = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, said
    # New processes replaced them, in the same directories.
    assert len(starts(log, out / "shards" / "0")) > 1
    again, other = starts(log, out / "shards" / "1")[-1]
    assert again != second and other != worker
    assert results(out) == expected


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command. It and its children end when the context ends."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def starts(log: Path, folder: Path) -> list[tuple[int, int]]:
    """Return the process IDs of a shard's starts, each with its parent's."""
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(words[0]), int(words[1])) for words in lines if str(folder) in words]


def wait(
    running: subprocess.Popen[str], condition: Callable[[], list[tuple[int, int]]]
) -> list[tuple[int, int]]:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if value := condition():
            return value
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.01)
    raise TimeoutError
