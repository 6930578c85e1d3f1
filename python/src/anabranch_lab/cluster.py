"""Shards as Ray tasks."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anabranch_lab import shard
from anabranch_lab.failure import Exit, Failure
from anabranch_lab.sweep import JOURNAL, MAX_SHARDS, Sweep

# Seconds between two checks for finished shards.
LOOK_S = 1.0
# Defaults of Ray's environment variables: a local cluster sends no statistics, and has more time to start
# on a busy machine.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_agent_register_timeout_ms": "120000",
}
# Maximum number of attempts to start a local cluster. Ray fails if its agents need more than 15 s to start
# (ray-project/ray#65983), as on a busy machine. On the next attempt their files are cached.
STARTS = 3
# Shards per concurrent process. With several, machines of different speed finish at about the same time.
SHARDS_EACH = 4


def load() -> Any:  # noqa: ANN401 - Ray has no types to speak of
    """Import Ray, or fail with a hint how to install it."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise Failure(Exit.USAGE, f"Ray is missing ({error}): pip install './python[cluster]'") from error
    return ray


@contextmanager
def connected(address: str | None, cpus: int | None) -> Iterator[Any]:
    """Connect to the cluster at `address`, else to a running one, else to a new one on this machine."""
    ray = load()
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address != "local":
            try:
                ray.init(address=address or "auto", **quiet)
            except ConnectionError:
                if address is not None or "RAY_ADDRESS" in os.environ:
                    raise
        if not ray.is_initialized():
            start(ray, num_cpus=cpus, **quiet)
    # Ray also raises plain `Exception`s if a cluster does not start.
    except Exception as error:
        remedy = "`ray start --head` starts a cluster, --address local one for this command only"
        name = address or os.environ.get("RAY_ADDRESS", "auto")
        raise Failure(
            Exit.IO, f"cannot reach the Ray cluster {name}: {first_line(error)}; {remedy}"
        ) from error
    try:
        yield ray
    finally:
        # Ends the tasks that are still running.
        ray.shutdown()


def start(ray: Any, **options: object) -> None:  # noqa: ANN401
    """Start a cluster of this machine alone, with several attempts if necessary."""
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(address="local", include_dashboard=False, **options)
            return
        except Exception:
            # Processes of the failed attempt would disturb the next one.
            ray.shutdown()
            if attempt == STARTS:
                raise


def shards_for(ray: Any, threads: int) -> int:  # noqa: ANN401
    """Return a suitable number of shards for the current size of the cluster."""
    processors = int(ray.cluster_resources().get("CPU", 1))
    return min(max(processors // threads, 1) * SHARDS_EACH, MAX_SHARDS)


def run(ray: Any, sweep: Sweep, retries: int, gather: bool, progress: Callable[[int], None]) -> None:  # noqa: ANN401
    """Run all shards. `progress` is called about once per second with the number of finished shards."""
    import anabranch_lab

    ray.cloudpickle.register_pickle_by_value(anabranch_lab)
    # If a worker dies, Ray assigns its task to another one. If only the child dies, the task restarts it.
    task = ray.remote(num_cpus=sweep.threads, max_retries=retries)(shard.run)
    token = secrets.token_hex(8)
    waiting = {
        task.remote(work(sweep, index, retries, token if gather else None)): index
        for index in range(sweep.shards)
    }
    progress(0)
    while waiting:
        ready, _ = ray.wait(list(waiting), timeout=LOOK_S)
        for reference in ready:
            index = waiting.pop(reference)
            keep(sweep.folder(index), result(ray, reference, index))
        progress(sweep.shards - len(waiting))


def work(sweep: Sweep, index: int, retries: int, token: str | None) -> shard.Work:
    """Describe the work of one task."""
    options = ["--shard", f"{index}/{sweep.shards}", "--threads", str(sweep.threads)]
    folder = sweep.folder(index)
    folder.mkdir(parents=True, exist_ok=True)
    journal = folder / JOURNAL
    return {
        "index": index,
        "arguments": ["lab", "run", sweep.what, *sweep.options, *options],
        "binary": sweep.binary,
        "directory": str(Path.cwd()),
        "folder": str(folder),
        "scratch": f"anabranch-{token}-{index}" if token else None,
        "journal": journal.read_bytes() if token and journal.exists() else None,
        "retries": retries,
    }


def result(ray: Any, reference: Any, index: int) -> shard.Outcome:  # noqa: ANN401
    """Return the result of a task, or fail with its error."""
    try:
        outcome: shard.Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        remedy = "the same command goes on where it stopped"
        raise Failure(Exit.FAILED, f"shard {index}: {first_line(error)}; {remedy}") from error
    if outcome["status"] != 0:
        raise Failure(outcome["status"], f"shard {index}: {outcome['said']}")
    return outcome


def keep(folder: Path, outcome: shard.Outcome) -> None:
    """Write the gathered files. A file appears only when it is complete."""
    for name, content in outcome["files"].items():
        whole = folder / name
        whole.parent.mkdir(parents=True, exist_ok=True)
        part = whole.with_name(whole.name + ".part")
        part.write_bytes(content)
        part.replace(whole)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
