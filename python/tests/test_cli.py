import builtins
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch_lab import cli
from anabranch_lab.sweep import Counter, Sweep, begun

Script = Callable[[str], str]

# Shell script that writes a journal like the program. The directory after --out is the last argument.
JOURNAL = 'for last; do :; done; mkdir -p "$last"; echo head > "$last/journal.jsonl"'


def fault(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.command(list(arguments))
    said = capsys.readouterr().err
    assert said.startswith("anabranch-ray: ") and said.count("\n") == 1, said
    return status, said


def test_options_are_passed_on() -> None:
    line = ["x", "--out", "d", "--bytes", "200000", "--points", "0,1", "--qlog", "--", "--shiny", "1"]
    options, passed = cli.parse(line)
    assert (options.what, options.threads, options.retries) == ("x", 1, 5)
    assert passed == ("--points", "0,1", "--bytes", "200000", "--qlog", "--shiny", "1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: NAME|PLAN.toml, --out"),
        (["x", "--out", "d", "--shards", "0"], "--shards: `0` is not from 1 to 100000"),
        (["x", "--out", "d", "--retries", "-1"], "--retries: `-1` is not from 0 to 1000"),
        (["x", "--out", "d", "--colour"], "unrecognized arguments: --colour"),
        (["x", "--out", "d", "--binary", "/nowhere/a"], "there is no program /nowhere/a"),
    ],
)
def test_wrong_command_lines_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    status, said = fault(capsys, *arguments)
    assert status == 2
    assert says in said


def test_the_program_judges_the_plan_before_anything_runs(
    capsys: pytest.CaptureFixture[str], script: Script, tmp_path: Path
) -> None:
    binary = script('echo "anabranch: plan.toml, line 3: unknown key" >&2; exit 2')
    out = tmp_path / "out"
    status, said = fault(capsys, "plan.toml", "--out", str(out), "--binary", binary)
    assert (status, said) == (2, "anabranch-ray: plan.toml, line 3: unknown key\n")
    assert not out.exists()


def test_results_of_something_else_are_left_alone(
    capsys: pytest.CaptureFixture[str], script: Script, tmp_path: Path
) -> None:
    shards = tmp_path / "shards"
    (shards / "0").mkdir(parents=True)
    (shards / "1").mkdir()
    assert begun(tmp_path) == 2
    arguments = ["x", "--out", str(tmp_path), "--binary", script(JOURNAL)]
    status, said = fault(capsys, *arguments, "--shards", "3")
    assert status == 2 and "was begun in 2 shards, not in 3; give --shards 2 or none" in said
    (shards / "1" / "journal.jsonl").write_text("other\nrun\n")
    status, said = fault(capsys, *arguments)
    assert status == 2 and "shards/1: has runs of another experiment or commit" in said


def test_what_is_there_of_the_same_experiment_is_taken(script: Script, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("head\nrun\n")
    Sweep("x", tmp_path, 1, 1, binary=script(JOURNAL)).check()


def test_without_ray_the_line_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importing = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name == "ray":
            raise ImportError("No module named 'ray'")
        return importing(name, *rest)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    status, said = fault(capsys, "x", "--out", str(tmp_path), "--binary", script(JOURNAL))
    assert status == 2 and "pip install './python[cluster]'" in said


def test_runs_are_counted_as_journals_grow(tmp_path: Path) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    counter = Counter(folders)
    assert counter.runs() == 0
    for folder in folders:
        folder.mkdir()
        (folder / "journal.jsonl").write_text('head\n{"asked":1}\n{"job":1}\n{"job"')
    assert counter.runs() == 2
    with (folders[0] / "journal.jsonl").open("a") as journal:
        journal.write(":2}\n")
    assert counter.runs() == 3
