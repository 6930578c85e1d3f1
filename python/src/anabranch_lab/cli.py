"""Command line of `anabranch-ray`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from anabranch_lab import cluster, program, results
from anabranch_lab.failure import Exit, Failure
from anabranch_lab.sweep import MAX_SHARDS, Counter, Sweep, begun

# Seconds between progress lines if standard error is not a terminal.
LOG_EVERY_S = 30.0

# Options of `lab run` that take a value and are passed on. All arguments after `--` are passed on, too.
PASSED = {
    "--variants": ("A,B", "run these variants only"),
    "--points": ("0,4,8", "run these points only"),
    "--data": ("DIR", "directory with the published designs"),
    "--design": ("FILE.csv", "take the points from this file"),
    "--repetitions": ("N", "repetitions of each point"),
    "--bytes": ("N", "bytes of each download"),
}


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise a failure instead of printing the usage."""
        raise Failure(Exit.USAGE, f"{message}; see {self.prog} --help")


def main() -> None:
    """Run the command and exit with its status."""
    sys.exit(command(sys.argv[1:]))


def command(arguments: list[str]) -> int:
    """Run the command and return its exit status."""
    try:
        signal.signal(signal.SIGTERM, interrupted)
        run(*parse(arguments))
    except Failure as failure:
        return complain(str(failure), failure.status)
    except KeyboardInterrupt:
        return complain("stopped; the same command goes on where it stopped", Exit.INTERRUPTED)
    except OSError as error:
        return complain(str(error), Exit.IO)
    return 0


def interrupted(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal like Ctrl-C."""
    raise KeyboardInterrupt


def complain(what: str, status: int) -> int:
    """Print `what` to standard error and return `status`."""
    print(f"anabranch-ray: {what}", file=sys.stderr, flush=True)
    return int(status)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, tuple[str, ...]]:
    """Parse the command line. Return the options, and the arguments to pass on to `lab run`."""
    ours, further = arguments, []
    if "--" in arguments:
        at = arguments.index("--")
        ours, further = arguments[:at], arguments[at + 1 :]
    options = parser().parse_args(ours)
    passed = []
    for name in PASSED:
        value = getattr(options, name.removeprefix("--"))
        passed += [name, value] if value is not None else []
    passed += ["--qlog"] if options.qlog else []
    return options, (*passed, *further)


def parser() -> Parser:
    """Describe the command line."""
    parser = Parser(
        prog="anabranch-ray",
        description="Run an experiment of anabranch's lab in shards, as Ray tasks, and merge the results.",
        epilog="What follows -- is passed on to `anabranch lab run`.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "what", metavar="NAME|PLAN.toml", help="an experiment (`anabranch lab list`) or a plan"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="directory of the results")
    shards = "parts to run (four for each process that runs at once, or as many as were begun)"
    parser.add_argument("--shards", metavar="N", type=count(MAX_SHARDS), help=shards)
    parser.add_argument(
        "--threads", metavar="N", type=count(1024), default=1, help="processors of each part (1)"
    )
    parser.add_argument(
        "--gather", action="store_true", help="bring files back through Ray: DIR is not on shared storage"
    )
    address = (
        "auto: a cluster that is there; local: one of this machine for this command (auto, or else local)"
    )
    parser.add_argument("--address", metavar="auto|local|HOST:PORT", help=address)
    parser.add_argument("--cpus", metavar="N", type=count(1024), help="processors of a local cluster (all)")
    retries = "how often a part is begun again whose worker was killed (5)"
    parser.add_argument("--retries", metavar="N", type=count(1000, least=0), default=5, help=retries)
    binary = f"the program on every machine (${program.VARIABLE}, or anabranch on PATH)"
    parser.add_argument("--binary", metavar="PATH", help=binary)
    for name, (value, text) in PASSED.items():
        parser.add_argument(name, metavar=value, help=text)
    parser.add_argument(
        "--qlog", action="store_true", help="write traces of every run, in the shards' directories"
    )
    return parser


class count:  # noqa: N801 - reads as a type of argument
    """Argument type of whole numbers in a range."""

    def __init__(self, most: int, least: int = 1) -> None:
        """Accept numbers from `least` to `most`."""
        self._range = range(least, most + 1)

    def __call__(self, text: str) -> int:
        """Parse a number."""
        if not text.isdecimal() or int(text) not in self._range:
            raise argparse.ArgumentTypeError(f"`{text}` is not from {self._range[0]} to {self._range[-1]}")
        return int(text)


def run(options: argparse.Namespace, passed: tuple[str, ...]) -> None:
    """Run all shards and merge their results."""
    out = options.out.absolute()
    there = begun(out)
    if options.shards and there and options.shards != there:
        remedy = f"give --shards {there} or none, or another --out"
        raise Failure(Exit.USAGE, f"{out}: was begun in {there} shards, not in {options.shards}; {remedy}")
    # If no program is named, each machine searches for its own, whose path may differ.
    binary = program.find(options.binary) if options.binary else None

    def sweep(shards: int) -> Sweep:
        return Sweep(options.what, out, shards, options.threads, passed, binary)

    sweep(there).check()
    with cluster.connected(options.address, options.cpus) as ray:
        whole = sweep(options.shards or there or cluster.shards_for(ray, options.threads))
        line = Line(whole, options.gather)
        try:
            cluster.run(ray, whole, options.retries, options.gather, line.show)
        finally:
            line.end()
    whole.merge()
    failed, runs = results.failures(out)
    if failed:
        print(f"{failed} of {runs} runs failed: the column `failure` says why", file=sys.stderr)


class Line:
    """Progress display in one line of standard error."""

    def __init__(self, sweep: Sweep, gather: bool) -> None:
        """Start the clock."""
        folders = [] if gather else [sweep.folder(index) for index in range(sweep.shards)]
        self._shards = sweep.shards
        self._counter = Counter(folders) if folders else None
        self._begun = time.monotonic()
        self._said = -LOG_EVERY_S
        self._live = sys.stderr.isatty()

    def show(self, done: int) -> None:
        """Show the number of finished shards."""
        now = time.monotonic() - self._begun
        if not self._live and now - self._said < LOG_EVERY_S and done < self._shards:
            return
        self._said = now
        runs = f", {self._counter.runs()} runs" if self._counter else ""
        text = f"{done} of {self._shards} shards{runs}, {now:.0f} s"
        print(
            f"\r{text}\x1b[K" if self._live else text,
            end="" if self._live else "\n",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        """End the progress line."""
        if self._live:
            print(file=sys.stderr, flush=True)
