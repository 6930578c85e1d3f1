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

# From one look at what is done to the next.
LOOK_S = 1.0
# Ray's own, unless the user has set them: a local cluster sends no statistics, and a busy machine may take
# its time to start one.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "60",
    "RAY_agent_register_timeout_ms": "120000",
}
# Ray gives up, for good, when its agents need more than 15 s to start (ray-project/ray#65983), as on a busy machine;
# the next time their files are at hand.
STARTS = 3
# Shards for each process that runs at once, so that machines of different speed end together.
SHARDS_EACH = 4


def load() -> Any:  # noqa: ANN401 - Ray has no types to speak of
    """Import Ray, or say how to get it."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise Failure(Exit.USAGE, f"Ray is missing ({error}): pip install './python[cluster]'") from error
    return ray


@contextmanager
def connected(address: str | None, cpus: int | None) -> Iterator[Any]:
    """Connect to the cluster named, or one that is there, or else one of this machine, started for us."""
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
    # Ray raises bare exceptions, too, when a cluster does not start.
    except Exception as error:
        remedy = "`ray start --head` starts a cluster, --address local one for this command only"
        name = address or os.environ.get("RAY_ADDRESS", "auto")
        raise Failure(
            Exit.IO, f"cannot reach the Ray cluster {name}: {first_line(error)}; {remedy}"
        ) from error
    try:
        yield ray
    finally:
        # Ends what still runs for us.
        ray.shutdown()


def start(ray: Any, **options: object) -> None:  # noqa: ANN401
    """Start a cluster of this machine alone, if need be with patience."""
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(address="local", include_dashboard=False, **options)
            return
        except Exception:
            # What has started so far is in the way of the next attempt.
            ray.shutdown()
            if attempt == STARTS:
                raise


def shards_for(ray: Any, threads: int) -> int:  # noqa: ANN401
    """How many shards suit the cluster as it is now."""
    processors = int(ray.cluster_resources().get("CPU", 1))
    return min(max(processors // threads, 1) * SHARDS_EACH, MAX_SHARDS)


def run(ray: Any, sweep: Sweep, retries: int, gather: bool, progress: Callable[[int], None]) -> None:  # noqa: ANN401
    """Run all shards. `progress` is told every second or so how many are done."""
    import anabranch_lab

    ray.cloudpickle.register_pickle_by_value(anabranch_lab)
    # A task whose worker dies is given to another; a child that dies alone is the task's own affair.
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
    """Put down what a worker is to do."""
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
    """Take what a task gave, or fail as it did."""
    try:
        outcome: shard.Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        remedy = "the same command goes on where it stopped"
        raise Failure(Exit.FAILED, f"shard {index}: {first_line(error)}; {remedy}") from error
    if outcome["status"] != 0:
        raise Failure(outcome["status"], f"shard {index}: {outcome['said']}")
    return outcome


def keep(folder: Path, outcome: shard.Outcome) -> None:
    """Write down what was gathered, each file whole or not at all."""
    for name, content in outcome["files"].items():
        whole = folder / name
        whole.parent.mkdir(parents=True, exist_ok=True)
        part = whole.with_name(whole.name + ".part")
        part.write_bytes(content)
        part.replace(whole)


def first_line(error: Exception) -> str:
    """What an error says, as far as people read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
