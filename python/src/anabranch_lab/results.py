"""Results of a sweep, for notebooks and scripts. This module does not need Ray."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def read(directory: str | Path) -> pyarrow.Table:
    """Read all runs in a directory of results; `docs/lab-results.md` explains the columns."""
    # Distributing runs does not need pyarrow, and workers with a copy of this package may lack it.
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"reading results takes pyarrow ({error}): pip install ./python") from error

    return parquet.read_table(Path(directory) / "runs.parquet")


def failures(directory: str | Path) -> tuple[int, int]:
    """Return the number of failed runs and the number of all runs."""
    # A cell may contain the request times of a whole run.
    csv.field_size_limit(sys.maxsize)
    with (Path(directory) / "runs.csv").open(newline="") as file:
        column = [row["failure"] for row in csv.DictReader(file)]
    return sum(1 for reason in column if reason), len(column)
