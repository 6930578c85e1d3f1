"""The stack's settings, and what both sides share."""

import socket

from stack import QuicConfiguration, QuicProtocolVersion

# Requested size of the kernel buffer in each direction, in bytes.
KERNEL_BUFFER = 7 << 20

# Maximum size of a DATAGRAM frame that is accepted, in bytes.
MAX_DATAGRAM = 65_535

# Content of performance streams.
PATTERN = bytes([0x5A]) * (64 << 10)

# Maximum number of pattern bytes that a request may ask for, since the stack's send buffers are unbounded.
MAX_PATTERN = 256 << 20


def configuration(options, alpn, is_client):
    """The settings of one side."""
    config = QuicConfiguration(
        alpn_protocols=alpn,
        idle_timeout=options.idle_ms / 1000,
        is_client=is_client,
        max_data=2 * options.window,
        max_datagram_frame_size=MAX_DATAGRAM,
        max_stream_data=options.window,
    )
    config.supported_versions = [QuicProtocolVersion.VERSION_1]
    if options.v2:
        config.supported_versions.append(QuicProtocolVersion.VERSION_2)
    return config


def bind(host, port):
    """A UDP socket with large kernel buffers."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        udp.setsockopt(socket.SOL_SOCKET, option, KERNEL_BUFFER)
    udp.bind((host, port))
    return udp


def send_pattern(send, count):
    """Gives `count` bytes of the pattern to `send(bytes, end)`, the end with the last of them."""
    while count > len(PATTERN):
        send(PATTERN, False)
        count -= len(PATTERN)
    send(PATTERN[:count], True)
