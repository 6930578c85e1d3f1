#!/usr/bin/env python3
"""The kernel's TCP in real time beside the same in virtual time: the table of docs/lab-linux.md.

    cargo build --release && sudo examples/linux-real.py --anabranch target/release/anabranch

Real time: three network namespaces of this host, a server, a router and a client. Both devices of the router have a token bucket
(tbf) with the rate of the point and a queue of its packets. Virtual time: `anabranch lab run` with the same points, whose
kernel is that of `anabranch lab linux build`. Both move the same bytes from the server to the client, with CUBIC and with Reno.

It needs root, iproute2 and Python 3.8, takes about 45 s for each round, and removes its namespaces at its end, also after Ctrl-C.
A host that is busy with other work makes the real times longer: the load is printed, and should be below the number of processors.
It exits with status 1 if a median is more than 3 % apart, and with 2 if something is missing.
"""

import argparse
import csv
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

# Rate in Mbit/s and queue in packets. The links have no delay, so that a kernel without netem can take part.
POINTS = [(5, 20), (20, 40), (50, 100)]
CONTROLS = ["cubic", "reno"]
BYTES = 10_000_000
# Largest distance of the medians, as a share of the virtual time.
LIMIT = 0.03
# Seconds after which a transfer, or a sweep in virtual time, is given up.
MAX_TRANSFER = 60
MAX_SWEEP = 600
# Bytes of a full packet: the guest's links charge those of IP, a token bucket also those of Ethernet.
IP_BYTES, ETHERNET_BYTES = 1500, 1514
# The bucket holds three packets, so that a timer which is late on a busy host does not lower the rate.
BURST = 3 * ETHERNET_BYTES
PORT = 443
SETTINGS = {
    "tcp_rmem": "4096 131072 16777216",
    "tcp_wmem": "4096 16384 16777216",
    "tcp_no_metrics_save": "1",
    "ip_forward": "1",
}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_TRANSFER)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Links:
    """Namespaces of a server, a router and a client, which vanish with this."""

    def __init__(self):
        self.names = {host: f"anabranch-real-{os.getpid()}-{host}" for host in ("server", "router", "client")}

    def __enter__(self):
        try:
            self.create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # A second signal must not keep the rest from being removed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for name in self.names.values():
            command = ["ip", "netns", "del", name]
            subprocess.run(command, stderr=subprocess.DEVNULL, start_new_session=True, check=False)

    def create(self):
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "dev", "lo", "up")
        for number, host in enumerate(("server", "client"), 1):
            router, end = self.names["router"], self.names[host]
            run("ip", "link", "add", host, "netns", router, "type", "veth", "peer", "name", "link", "netns", end)
            for name, device, last in ((router, host, 2), (end, "link", 1)):
                run("ip", "-n", name, "addr", "add", f"10.77.{number}.{last}/24", "dev", device)
                run("ip", "-n", name, "link", "set", "dev", device, "up")
            run("ip", "-n", end, "route", "add", "default", "via", f"10.77.{number}.2")
        for host in self.names:
            devices = ["server", "client"] if host == "router" else ["link"]
            self.inside(host, lambda: self.set_up(devices))

    @staticmethod
    def set_up(devices):
        for device in devices:
            segment(device)
        for name, value in SETTINGS.items():
            with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as file:
                file.write(value)

    def inside(self, host, work):
        """Calls `work` in a thread that is in the namespace of `host`, and returns what it returns."""
        result = []

        def enter():
            try:
                with open(f"/run/netns/{self.names[host]}", "rb") as file:
                    os_setns(file.fileno())
                result.append(work())
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=enter, daemon=True)
        thread.start()
        thread.join(MAX_TRANSFER)
        if not result:
            raise RuntimeError(f"the {host} did not end within {MAX_TRANSFER} s")
        if isinstance(result[0], OSError):
            raise RuntimeError(f"the {host}: {result[0]}")
        return result[0]

    def shape(self, mbps, packets):
        """Sets both directions to a rate and a queue. The packet in transmission is in the bucket's queue as well."""
        rate = mbps * 1_000_000 * ETHERNET_BYTES // IP_BYTES
        limit = (packets + 1) * ETHERNET_BYTES
        for device in ("server", "client"):
            run("tc", "-n", self.names["router"], "qdisc", "replace", "dev", device, "root", "tbf",
                "rate", f"{rate}bit", "burst", str(BURST), "limit", str(limit))


def os_setns(descriptor):
    """Puts this thread into a network namespace. Python has `os.setns` from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, 0x40000000):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def segment(device):
    """Has segments pass a device one by one: no TSO, no GSO (`SIOCETHTOOL`, linux/ethtool.h)."""
    with socket.socket() as any_socket:
        for command in (0x1F, 0x24):
            off = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(off))
            fcntl.ioctl(any_socket, 0x8946, request.ljust(40, b"\0"))


def opened(control):
    end = socket.socket()
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.settimeout(MAX_TRANSFER)
    return end


def transfer(links, control):
    """Downloads once; returns the seconds from the first SYN to the last byte."""

    def listen():
        listener = opened(control)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", PORT))
        listener.listen(1)
        return listener

    def serve(listener):
        with listener, listener.accept()[0] as connection:
            connection.recv(8)
            connection.sendall(bytes(BYTES))
            connection.recv(1)

    def ask():
        with opened(control) as connection:
            begin = time.monotonic()
            connection.connect(("10.77.1.1", PORT))
            connection.sendall(BYTES.to_bytes(8, "big"))
            left = BYTES
            while left:
                read = len(connection.recv(min(left, 1 << 18)))
                if not read:
                    raise OSError("the connection ended early")
                left -= read
            return time.monotonic() - begin

    listener = links.inside("server", listen)
    # A socket stays in its namespace.
    server = threading.Thread(target=serve, args=(listener,), daemon=True)
    server.start()
    took = links.inside("client", ask)
    server.join(MAX_TRANSFER)
    return took


def in_real_time(rounds):
    times = {}
    with Links() as links:
        for mbps, packets in POINTS:
            links.shape(mbps, packets)
            for _ in range(rounds):
                for control in CONTROLS:
                    took = transfer(links, control)
                    times.setdefault((mbps, control), []).append(took)
                    print(f"{mbps} Mbit/s, {control}: {took:.3f} s", file=sys.stderr)
    return {key: statistics.median(values) for key, values in times.items()}


def in_virtual_time(program, folder):
    plan = os.path.join(folder, "linux-real.toml")
    with open(plan, "w", encoding="utf-8") as file:
        file.write('name = "linux-real"\nabout = "TCP over one link without delay"\ndeadline_s = 300\n')
        file.write(f"[workload.download]\nbytes = {BYTES}\n")
        for mbps, packets in POINTS:
            file.write(f"[[points.inline]]\nrun = {mbps}\n")
            file.write(f"paths = [{{ rate_mbps = {mbps}, owd_ms = 0, queue_packets = {packets} }}]\n")
        for control in CONTROLS:
            file.write(f'[[variant]]\nname = "{control}"\nset = {{ external = "linux/tcp-{control}" }}\n')
    out = os.path.join(folder, "results")
    command = [program, "lab", "run", plan, "--repetitions", "1", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SWEEP)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    with open(os.path.join(out, "runs.csv"), encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    failed = [row["failure"] for row in rows if row["failure"]]
    if failed:
        raise RuntimeError(f"a run in virtual time failed: {failed[0]}")
    times = {(int(row["point"]), row["variant"]): float(row["transfer_time_s"]) for row in rows}
    return times, rows[0]["commit"].rpartition("+")[2]


def table(real, virtual, kernel):
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
    print(f"Real time: Linux {os.uname().release}, {load}. Virtual time: {kernel}.\n")
    print("| Link | Control | Real time | Virtual time | Apart |\n|---|---|---|---|---|")
    worst = 0
    for mbps, packets in POINTS:
        for control in CONTROLS:
            one, other = real[mbps, control], virtual[mbps, control]
            apart = abs(one - other) / other
            worst = max(worst, apart)
            link = f"{mbps} Mbit/s, {packets} packets" if control == CONTROLS[0] else ""
            print(f"| {link} | {control} | {one:.3f} s | {other:.3f} s | {apart:.1%} |")
    return worst


def main():
    parser = argparse.ArgumentParser(description="TCP of this host's kernel beside that of the lab's kernel in virtual time")
    parser.add_argument("--anabranch", default="anabranch", metavar="PROGRAM", help="the program with the lab")
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 21), metavar="N", help="transfers of each kind (3)")
    options = parser.parse_args()
    program = shutil.which(options.anabranch)
    missing = [name for name in ("ip", "tc") if not shutil.which(name)]
    if os.geteuid() != 0 or missing or not program:
        wants = "root" if os.geteuid() else ", ".join(missing) or options.anabranch
        print(f"linux-real: this needs {wants}", file=sys.stderr)
        return 2
    # The namespaces are removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        with tempfile.TemporaryDirectory() as folder:
            virtual, kernel = in_virtual_time(program, folder)
        worst = table(in_real_time(options.rounds), virtual, kernel)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"linux-real: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 2
    return 1 if worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
