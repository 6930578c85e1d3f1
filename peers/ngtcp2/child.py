"""Child processes that do not outlive this one."""

import ctypes
import shutil
import signal
import subprocess

import contract

# prctl(2) option: signal that a process receives when its parent exits.
PR_SET_PDEATHSIG = 1

# Time in seconds that a child may take to exit when asked to.
PATIENCE = 2

libc = ctypes.CDLL(None)


def start(name, flags, log):
    """Starts a program of ngtcp2, all its output going to the file `log`."""
    program = shutil.which(name, path="/usr/bin:/usr/sbin")
    if program is None:
        raise contract.Failed(f"{name} is not installed: build.sh ngtcp2 says how")
    return subprocess.Popen(
        [program, *flags],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
    )


def end(process):
    """Ends a program."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
