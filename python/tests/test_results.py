"""Results can be read without Ray."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from anabranch_lab import results

PROJECT = Path(__file__).parents[1]

# Script that reads a directory while Ray cannot be imported.
READ = """
import sys
sys.modules["ray"] = None
import anabranch_lab
from anabranch_lab import results
table = anabranch_lab.read(sys.argv[1])
print(table.num_rows, table.column("transfer_time_s").to_pylist())
"""


def test_reading_takes_pyarrow_and_no_ray() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = [name.split(">")[0] for name in project["dependencies"]]
    assert names == ["pyarrow"]
    assert [name.split(">")[0] for name in project["optional-dependencies"]["cluster"]] == ["ray"]


def test_a_table_is_read_where_there_is_no_ray(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"failure": ["", "stalled"], "transfer_time_s": [1.5, None]})
    parquet.write_table(table, tmp_path / "runs.parquet")
    command = [sys.executable, "-c", READ, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.strip()) == (0, "2 [1.5, None]"), ended.stderr


def test_results_of_the_program_are_read(binary: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    tiny = ["ccr22-heterogeneous-2path", "--points", "0", "--bytes", "200000"]
    command = [binary, "lab", "run", *tiny, "--variants", "single-cubic-original", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=240)
    assert results.read(out).column("variant").to_pylist() == ["single-cubic-original"]
    assert results.failures(out) == (0, 1)


def test_failures_are_counted_without_pyarrow(tmp_path: Path) -> None:
    long = ";".join(["0.125"] * 100_000)
    lines = ["variant,failure,request_times_s", f"a,,{long}", 'b,"stalled, at 3 s",']
    (tmp_path / "runs.csv").write_text("\n".join(lines) + "\n")
    assert results.failures(tmp_path) == (1, 2)


def test_without_pyarrow_the_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"takes pyarrow .*: pip install ./python"):
        results.read(tmp_path)
