import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch_lab import program
from anabranch_lab.failure import Failure

Script = Callable[[str], str]


def test_the_program_is_named_or_in_the_environment_or_on_the_path(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = script("true")
    assert program.find(one) == one
    monkeypatch.setenv("ANABRANCH", one)
    assert program.find(None) == one
    monkeypatch.delenv("ANABRANCH")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match="there is no program anabranch on .*--binary"):
        program.find(None)
    (tmp_path / "anabranch").symlink_to(one)
    assert program.find(None) == str(tmp_path / "anabranch")
    with pytest.raises(Failure):
        program.find("/nowhere/anabranch")


def test_status_and_last_words_come_back(script: Script, tmp_path: Path) -> None:
    assert program.run([script("exit 0")]) == (0, "")
    assert program.run([script("echo anabranch: no plan >&2; echo more >&2; exit 2")]) == (2, "no plan")
    assert program.run([script("kill -9 $$")]).status == -signal.SIGKILL
    assert program.run([script("test $PWD = " + str(tmp_path))], directory=str(tmp_path)).status == 0
    assert program.run(["/nowhere/anabranch"]) == (
        1,
        "cannot run /nowhere/anabranch: No such file or directory",
    )
    (tmp_path / "text").write_text("not a program")
    (tmp_path / "text").chmod(0o755)
    assert "Exec format error" in program.run([str(tmp_path / "text")]).said


def test_the_line_that_says_why_is_found() -> None:
    panic = "thread 'main' panicked at x.rs:1:\nno\nnote: run with RUST_BACKTRACE=1\n"
    assert program.last_words(panic) == "note: run with RUST_BACKTRACE=1"
    assert program.last_words("error: unknown option\n\n  Usage: lab run\n") == "unknown option"
    assert program.last_words("\n") == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_a_child_dies_with_its_parent(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    # `exec` keeps the process, and with it the leash.
    child = script(f"echo $$ > {file}.part; mv {file}.part {file}; exec sleep 60")
    parent = subprocess.Popen(
        [sys.executable, "-c", f"from anabranch_lab import program; program.run(['{child}'])"]
    )
    wait_for(file.exists)
    pid = int(file.read_text())
    parent.kill()
    parent.wait()
    wait_for(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie process is dead, too.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def wait_for(condition: Callable[[], object]) -> object:
    for _ in range(200):
        if value := condition():
            return value
        time.sleep(0.05)
    raise TimeoutError
