"""The contract of peers/README.md for the peers in Python: flags, lifetime, exit status, and the line of JSON."""

import argparse
import ipaddress
import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path, PurePosixPath

# Exit status for a case that the stack does not support, as in the interop runner's contract.
EXIT_UNSUPPORTED = 127

# Stream receive window in bytes; a connection's window is twice that.
DEFAULT_WINDOW = 16 << 20

# Default number of datagrams for --case datagram.
DEFAULT_DATAGRAMS = 10

CASES = [
    "handshake", "transfer", "multiplexing", "resumption", "zerortt", "keyupdate", "chacha20", "v2", "rebind",
    "migration", "datagram", "versionnegotiation", "ecn",
]  # fmt: skip


class Failed(Exception):
    """The case was tried and did not work; the text says why."""


class Unsupported(Exception):
    """The stack has no such feature."""


def address(text):
    """IP:PORT, with brackets around an IPv6 address."""
    host, _, port = text.rpartition(":")
    return str(ipaddress.ip_address(host.strip("[]"))), int(port)


def shown(host, port):
    """An address as the contract writes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Parser(argparse.ArgumentParser):
    """Flags whose errors are one line and status 1, and which cannot be shortened."""

    def __init__(self, name):
        super().__init__(prog=name, allow_abbrev=False, add_help=False)
        self.add_argument("--one-core", type=int)
        self.add_argument("--idle-ms", type=int, default=30_000)
        self.add_argument("--window", type=int, default=DEFAULT_WINDOW)
        self.add_argument("--no-gso", action="store_true")
        self.add_argument("--v2", action="store_true")

    def error(self, message):
        raise Failed(message)


def server_options(words):
    """`server` and its flags."""
    parser = Parser("server")
    parser.add_argument("--listen", type=address, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("--migrate-ok", action="store_true")
    parser.add_argument("--no-migration", action="store_true")
    parser.add_argument("--preferred", type=address)
    parser.add_argument("--reset-key", type=bytes.fromhex)
    return parser.parse_args(words)


def client_options(words):
    """`client` and its flags; `alpn` is what the work needs."""
    parser = Parser("client")
    parser.add_argument("--connect", type=address, required=True)
    parser.add_argument("--ca", required=True)
    parser.add_argument("--name", default="localhost")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--alpn")
    parser.add_argument("--http3", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("paths", nargs="*")
    numbers = {"download": 0, "upload": 0, "streams": 1, "requests": 0, "handshakes": 0, "datagrams": 0}
    for name, default in {**numbers, "concurrency": 1, "connections": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_intermixed_args(words)
    options.case = options.case or ("v2" if options.v2 else "transfer")
    if options.case == "datagram":
        options.datagrams = options.datagrams or DEFAULT_DATAGRAMS
    alpn = "perf"
    if options.requests and (not options.http3 or len(options.paths) != 1):
        raise Failed("--requests needs --http3 and one path")
    if not options.handshakes and not options.datagrams:
        if options.http3:
            alpn = "h3"
        elif options.paths or options.alpn == "hq-interop":
            alpn = "hq-interop"
    if options.alpn not in (None, alpn):
        raise Failed(f"this work needs --alpn {alpn}")
    if options.http3 and alpn != "h3":
        raise Failed("this work is not done over HTTP/3")
    options.alpn = alpn
    return options


def below(root, path):
    """The file that a URL path names below `root`; None if it leaves `root`, or is no file."""
    parts = PurePosixPath(path.lstrip("/")).parts
    if root is None or not parts or ".." in parts:
        return None
    file = root.joinpath(*parts)
    return file if file.is_file() else None


def destination(out, path):
    """Where the answer to `path` is stored: its last component inside `out`."""
    name = PurePosixPath(path).name
    if name in ("", ".."):
        raise Failed(f"no file name in {path}")
    return out / name


def halves(paths):
    """For two connections: the first path on one and the others on the next; a single path, or none, on both."""
    return (paths[:1], paths[1:]) if len(paths) > 1 else (paths, paths)


def on_ending(tell):
    """Calls `tell` once or twice: when SIGTERM arrives and when stdin ends. A peer never outlives who started it."""
    signal.signal(signal.SIGTERM, lambda *_: tell())

    def watch():
        while os.read(sys.stdin.fileno(), 256):
            pass
        tell()

    threading.Thread(target=watch, daemon=True).start()


def ready(host, port):
    """Prints the line a runner waits for before it starts clients."""
    print(f"listening {shown(host, port)}", flush=True)


def report(**observed):
    """Prints what was observed as one line of JSON, with the CPU time of this process and of its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    observed["cpu_seconds"] = round(sum(usage.ru_utime + usage.ru_stime for usage in usages), 6)
    print(json.dumps(observed), flush=True)


def goodput(count, seconds):
    """The part of a report that says how much application data moved, and how fast."""
    seconds = max(seconds, 1e-9)
    mbps = round(count * 8 / seconds / 1e6, 3)
    return {"bytes": count, "seconds": round(seconds, 6), "goodput_mbps": mbps}


def main(server, client):
    """Reads the arguments and runs one of the two functions with its options."""
    try:
        match sys.argv[1:]:
            case ["server", *words]:
                run, options = server, server_options(words)
            case ["client", *words]:
                run, options = client, client_options(words)
            case _:
                raise Failed("usage: server|client --flags; see peers/README.md")
        if options.one_core is not None:
            os.sched_setaffinity(0, {options.one_core})
        run(options)
    except Unsupported as error:
        print(f"unsupported: {error}", file=sys.stderr)
        sys.exit(EXIT_UNSUPPORTED)
    except (Failed, OSError) as error:
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        sys.exit(1)
