"""The program `anabranch` as a child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NamedTuple

from anabranch_lab.failure import Exit, Failure

# Names the program where it is not on PATH.
VARIABLE = "ANABRANCH"

# Becomes the program, and dies with its parent: a worker that is killed must not leave a child behind that
# holds the lock of the results while another worker is to go on with them. On Linux; elsewhere it waits.
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
    """How a child ended: its status, negative for a signal, and what it said in the end."""

    status: int
    said: str


def find(named: str | None) -> str:
    """Find the program: the one that is named, or else in the environment, or else on PATH."""
    wanted = named or os.environ.get(VARIABLE) or "anabranch"
    found = shutil.which(wanted)
    if found is None:
        where = f"on {os.uname().nodename}"
        remedy = f"build it (cargo build --release), then name it with --binary or {VARIABLE}"
        raise Failure(Exit.USAGE, f"there is no program {wanted} {where}: {remedy}")
    return os.path.abspath(found)  # noqa: PTH100 - links stay links


def run(command: list[str], *, directory: str | None = None, show: bool = False) -> Ended:
    """Run the program to its end, in `directory` or ours; with `show`, its standard output is ours."""
    leash = [sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid()), *command]
    out = None if show else subprocess.DEVNULL
    child = subprocess.run(
        leash, cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, check=False
    )
    return Ended(child.returncode, last_words(child.stderr.decode(errors="replace")))


def last_words(text: str) -> str:
    """Pick the line that says why: the program's own if there is one, or else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(("anabranch: ", "error: "))]
    return (own or lines or [""])[-1].removeprefix("anabranch: ").removeprefix("error: ")
