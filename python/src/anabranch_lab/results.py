"""Results of a sweep, for notebooks and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def read(directory: str | Path) -> pyarrow.Table:
    """Read all runs in a directory of results; `docs/lab-results.md` explains the columns."""
    # Whoever only distributes runs can do without pyarrow.
    from pyarrow import parquet

    return parquet.read_table(Path(directory) / "runs.parquet")


def failures(directory: str | Path) -> tuple[int, int]:
    """Count the runs that did not come to their end, and all runs."""
    column = read(directory).column("failure").to_pylist()
    return sum(1 for reason in column if reason), len(column)
