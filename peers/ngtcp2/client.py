"""The client's cases: h3 only."""

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import child
import contract
from evidence import Evidence

# A version that no server supports. Its form is reserved to trigger Version Negotiation (RFC 9000 §15).
RESERVED_VERSION = "0x1a2a3a4a"

# Flags of each case. gtlsclient performs actions at fixed times after the handshake is confirmed. In two cases the action
# precedes the request: after a NAT rebinding gtlsclient sends nothing by itself, and it fails if it has to update its keys
# soon after the server did.
CASES = {
    "handshake": [],
    "transfer": [],
    "multiplexing": [],
    "ecn": [],
    "resumption": ["--disable-early-data"],
    "zerortt": [],
    "keyupdate": ["--key-update=10ms", "--delay-stream=30ms"],
    "chacha20": ["--ciphers=NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+CHACHA20-POLY1305"],
    "rebind": ["--nat-rebinding", "--change-local-addr=50ms", "--delay-stream=100ms"],
    "migration": ["--change-local-addr=10ms"],
    "versionnegotiation": [f"--version={RESERVED_VERSION}", "--preferred-versions=v1"],
}


def run(options):
    """Does what the options ask for and prints what was observed."""
    if options.case not in CASES:
        raise contract.Unsupported(f"gtlsclient has nothing for {options.case}")
    if options.alpn != "h3" or options.requests:
        raise contract.Unsupported("gtlsclient only fetches over HTTP/3")
    caller = Caller(options)
    if options.case in ("resumption", "zerortt"):
        twice(caller)
    else:
        once(caller)


def once(caller):
    """The work on one connection."""
    case = caller.options.case
    seen, observed = caller.fetch(caller.options.paths)
    proofs = {
        "keyupdate": ("key_updates", seen.key_updates, "no key update was answered"),
        "rebind": ("path_challenges_answered", seen.challenges_answered, "the server did not validate the new path"),
        "migration": ("paths_validated", seen.challenges_answered and seen.responses, "the new path was not validated"),
        "versionnegotiation": ("version_negotiation", seen.version_negotiation, "the version was not negotiated"),
        "ecn": ("ecn_capable", seen.ecn_capable, "the server did not validate the client's ECN marks"),
        "chacha20": ("cipher_suite", seen.cipher if "CHACHA20" in seen.cipher else "", "another suite was chosen"),
    }
    name, proof, failure = proofs.get(case, ("retry", seen.retry, None))
    contract.report(**observed, **{name: proof})
    if failure and not proof:
        raise contract.Failed(failure)


def twice(caller):
    """Two connections; the second uses what the first one was given."""
    first, second = contract.halves(caller.options.paths)
    with tempfile.TemporaryDirectory() as folder:
        memory = {name: Path(folder, name) for name in ("session", "tp", "token")}
        kept = [f"--{name}-file={path}" for name, path in memory.items()]
        full, _ = caller.fetch(first, kept)
        if not memory["session"].exists():
            raise contract.Failed("no session ticket arrived")
        again, observed = caller.fetch(second, kept)
    # A resumed handshake contains no certificate.
    resumed = again.handshake_bytes < full.handshake_bytes / 2
    accepted = again.early_packets > 0 and not again.early_rejected
    contract.report(**observed, resumed=resumed, zero_rtt_accepted=accepted)
    if not resumed:
        raise contract.Failed("the second handshake was a full one")
    if caller.options.case == "zerortt" and not accepted:
        raise contract.Failed("0-RTT was not accepted")


class Caller:
    """Runs gtlsclient."""

    def __init__(self, options):
        self.options = options

    def fetch(self, paths, more=()):
        """Fetches paths over one connection: what the program's log shows, and the start of a report."""
        with ExitStack() as stack:
            log = stack.enter_context(tempfile.TemporaryFile("w+", errors="replace"))
            out = self.options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            start = time.monotonic()
            child.start("gtlsclient", [*self.settings(out), *more, *self.where(paths)], log).wait()
            seconds = time.monotonic() - start
            log.seek(0)
            seen = Evidence(log)
            self.check(seen, paths)
            moved = sum(contract.destination(out, path).stat().st_size for path in paths)
        observed = {"case": self.options.case, "version": seen.version} | contract.goodput(moved, seconds)
        return seen, observed

    def settings(self, out):
        """The flags of gtlsclient."""
        window = self.options.window
        return [
            *CASES[self.options.case],
            "--no-quic-dump",
            "--no-http-dump",
            "--exit-on-all-streams-close",
            f"--download={out}",
            f"--sni={self.options.name}",
            f"--timeout={self.options.idle_ms}ms",
            f"--handshake-timeout={self.options.idle_ms}ms",
            f"--max-data={2 * window}",
            f"--max-stream-data-bidi-local={window}",
            f"--max-window={2 * window}",
            f"--max-stream-window={window}",
        ]

    def where(self, paths):
        """The server and what to fetch from it."""
        host, port = self.options.connect
        base = f"https://{self.options.name}:{port}/"
        return [host, str(port), *(base + path.lstrip("/") for path in paths)]

    def check(self, seen, paths):
        """Fails unless every path was answered; the program's own status says nothing."""
        if not seen.completed:
            raise contract.Failed(f"no connection: {seen.last_error or 'the handshake did not complete'}")
        for status in seen.statuses:
            if status != "200":
                raise contract.Failed(f"the status is {status}")
        if len(seen.statuses) != len(paths) or seen.closed != len(paths):
            why = seen.last_error or "the connection ended"
            raise contract.Failed(f"{seen.closed} of {len(paths)} answers came: {why}")
