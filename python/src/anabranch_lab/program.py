"""The program `anabranch` as a child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from anabranch_lab.failure import Exit, Failure

# Environment variable with the path of the program if it is not on PATH.
VARIABLE = "ANABRANCH"

# Script that is replaced by the program and dies with its parent. A killed worker must not leave a child
# that holds the lock of the results, because another worker continues them. This works on Linux only;
# elsewhere the next worker waits.
LEASH = """
import os, sys
parent, command = int(sys.argv[1]), sys.argv[2:]
if sys.platform == "linux":
    import ctypes
    PR_SET_PDEATHSIG, SIGKILL = 1, 9
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("anabranch: its worker is gone")
try:
    os.execv(command[0], command)
except OSError as error:
    sys.exit(f"anabranch: cannot run {command[0]}: {error.strerror}")
"""


class Ended(NamedTuple):
    """End of a child: its exit status (negative for a signal) and its last message."""

    status: int
    said: str


def find(named: str | None) -> str:
    """Find the program: the named one, else the one in the environment, else the one on PATH."""
    wanted = named or os.environ.get(VARIABLE) or "anabranch"
    found = shutil.which(wanted)
    if found is None:
        where = f"on {os.uname().nodename}"
        remedy = f"build it (cargo build --release), then name it with --binary or {VARIABLE}"
        raise Failure(Exit.USAGE, f"there is no program {wanted} {where}: {remedy}")
    return os.path.abspath(found)  # noqa: PTH100 - links stay links


def run(command: list[str], *, directory: str | None = None, show: bool = False) -> Ended:
    """Run the program to its end, in `directory` if given. With `show`, it shares our standard output."""
    leash = [sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()), *command]
    out = None if show else subprocess.DEVNULL
    child = subprocess.run(
        leash, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, check=False
    )
    return Ended(child.returncode, last_words(child.stderr.decode(errors="replace")))


def last_words(text: str) -> str:
    """Return the line with the reason: the last one of the program itself, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("anabranch: ", "error: "))]
    return (own or lines or [""])[-1].removeprefix("anabranch: ").removeprefix("error: ")
