"""A tiny sweep on a local cluster, with the program itself."""

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
# Long enough to be killed in the middle.
LONG = ["ccr22-heterogeneous-2path", "--points", "0,1,2,3,4,5", "--bytes", "20000000"]
LONG += ["--variants", "single-cubic-original,multiple-cubic-original"]
FRONT = [sys.executable, "-c", "from anabranch_lab.cli import main; main()"]
LOCAL = ["--address", "local", "--cpus", "2"]
TIMEOUT_S = 240


def alone(binary: str, options: list[str], out: Path) -> dict[str, bytes]:
    """Gives the results of one machine without Ray."""
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


def test_killed_processes_and_workers_change_nothing(binary: str, tmp_path: Path) -> None:
    expected = alone(binary, LONG, tmp_path / "alone")
    out = tmp_path / "shared"
    arguments = [*LONG, "--out", str(out), "--shards", "2", *LOCAL, "--binary", binary]
    with started([*FRONT, *arguments]) as running:
        first = child(running, out / "shards" / "0")
        os.kill(first, signal.SIGKILL)
        second = child(running, out / "shards" / "1")
        worker = parent(second)
        os.kill(worker, signal.SIGKILL)
        wait(running, lambda: not Path(f"/proc/{second}").exists())
        # Others take their places, in the same directories.
        assert child(running, out / "shards" / "0") != first
        again = child(running, out / "shards" / "1")
        assert again != second and parent(again) != worker
        _, said = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, said
    assert results(out) == expected


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Ends it in any case; what it started ends with it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def child(running: subprocess.Popen[str], folder: Path) -> int:
    """Gives the process that is at work for a shard."""

    def find() -> int:
        for one in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (one / "cmdline").read_bytes().split(b"\0") if one.name.isdigit() else []
                # The program itself, not the leash that becomes it.
                if words[1:3] == [b"lab", b"run"] and str(folder).encode() in words:
                    return int(one.name)
        return 0

    return wait(running, find)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def wait(running: subprocess.Popen[str], condition: Callable[[], int]) -> int:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if value := condition():
            return value
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.01)
    raise TimeoutError
