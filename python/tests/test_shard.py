from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch_lab import shard
from anabranch_lab.shard import Work

Script = Callable[[str], str]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "PAUSE_S", 0.0)


def work(binary: str, folder: Path, **changes: object) -> Work:
    base = {
        "index": 0,
        "arguments": ["lab", "run", "x"],
        "binary": binary,
        "directory": str(folder.parent),
        "folder": str(folder),
        "scratch": None,
        "journal": None,
        "retries": 2,
    }
    return base | changes  # type: ignore[return-value]


def test_a_killed_process_is_started_again_and_finds_what_it_left(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    # The directory is the fifth argument. The script kills itself until the journal has three lines.
    binary = script('echo run >> "$5/journal.jsonl"; test $(wc -l < "$5/journal.jsonl") = 3 || kill -9 $$')
    assert shard.run(work(binary, folder)) == {"status": 0, "said": "", "files": {}}
    (folder / "journal.jsonl").unlink()
    failed = shard.run(work(binary, folder, retries=1))
    assert (failed["status"], failed["said"]) == (1, "its process was killed by signal 9, 2 times")


def test_a_lock_that_another_worker_holds_is_waited_for(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    text = f"anabranch: {folder}: {shard.IN_USE}"
    binary = script(f'test -e "$5/once" && exit 0; : > "$5/once"; echo "{text}; wait" >&2; exit 8')
    assert shard.run(work(binary, folder))["status"] == 0
    (folder / "once").unlink()
    assert shard.run(work(binary, folder, retries=0))["status"] == 8


def test_a_fault_is_not_tried_again(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "0"
    folder.mkdir()
    binary = script('echo >> "$5/begun"; echo "anabranch: unknown variant" >&2; exit 2')
    outcome = shard.run(work(binary, folder))
    assert (outcome["status"], outcome["said"]) == (2, "unknown variant")
    assert (folder / "begun").read_text() == "\n"


def test_storage_that_is_not_shared_is_named(script: Script, tmp_path: Path) -> None:
    outcome = shard.run(work(script("true"), tmp_path / "nowhere"))
    assert outcome["status"] == 8
    assert "does not see" in outcome["said"] and "--gather" in outcome["said"]


def test_files_are_gathered_and_go_on_from_what_was(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard.tempfile, "gettempdir", lambda: str(tmp_path))
    binary = script('echo new >> "$5/journal.jsonl"; : > "$5/lock"; mkdir "$5/qlog"; echo q > "$5/qlog/a"')
    outcome = shard.run(work(binary, tmp_path / "unused", scratch="mine", journal=b"old\n"))
    assert outcome["files"] == {"journal.jsonl": b"old\nnew\n", "qlog/a": b"q\n"}
    assert not (tmp_path / "mine").exists()
    # The journal of a killed worker on the same machine is newer than the command's.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "journal.jsonl").write_bytes(b"old\nnewer\n")
    outcome = shard.run(work(binary, tmp_path / "unused", scratch="mine", journal=b"old\n"))
    assert outcome["files"]["journal.jsonl"] == b"old\nnewer\nnew\n"
