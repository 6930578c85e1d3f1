"""The server: h3 only."""

import socket
import tempfile
import threading
import time
from pathlib import Path

import child
import contract

# Files in which Linux lists UDP sockets, by address family.
TABLES = {socket.AF_INET: "/proc/net/udp", socket.AF_INET6: "/proc/net/udp6"}


def run(options):
    """Serves until the process is told to end."""
    if options.v2:
        raise contract.Unsupported("this ngtcp2 knows only a draft of QUIC version 2")
    if options.no_migration or options.reset_key:
        raise contract.Unsupported("gtlsserver has no flag for disable_active_migration or for reset tokens")
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryFile() as log:
        host, port = chosen(*options.listen)
        flags = settings(options, options.root or Path(empty))
        process = child.start("gtlsserver", [*flags, host, str(port), options.key, options.cert], log)
        ending = threading.Event()
        contract.on_ending(ending.set)
        wait_for(process, host, port, log)
        contract.ready(host, port)
        while not ending.wait(0.1):
            check(process, log)
        child.end(process)
    contract.report()


def settings(options, root):
    """The flags of gtlsserver."""
    window = options.window
    flags = [
        "--quiet",
        f"--htdocs={root}",
        f"--timeout={options.idle_ms}ms",
        f"--max-data={2 * window}",
        f"--max-stream-data-bidi-remote={window}",
        f"--max-window={2 * window}",
        f"--max-stream-window={window}",
    ]
    if options.no_gso:
        flags.append("--max-gso-dgrams=1")
    if options.retry:
        flags.append("--validate-addr")
    if options.preferred:
        host, port = options.preferred
        family = "ipv6" if ":" in host else "ipv4"
        flags.append(f"--preferred-{family}-addr={contract.shown(host, port)}")
    return flags


def chosen(host, port):
    """The address with a port that is free now, for port 0 means nothing to gtlsserver."""
    if port:
        return host, port
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as udp:
        udp.bind((host, 0))
        return host, udp.getsockname()[1]


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def wait_for(process, host, port, log):
    """Waits until the port is bound; gtlsserver itself does not tell."""
    while f":{port:04X} " not in Path(TABLES[family_of(host)]).read_text():
        check(process, log)
        time.sleep(0.01)


def check(process, log):
    """Fails if the server has ended by itself."""
    if process.poll() is not None:
        log.seek(0)
        said = log.read().decode(errors="replace").splitlines()
        raise contract.Failed(f"gtlsserver ended with {process.returncode}: {said[-1] if said else 'silently'}")
