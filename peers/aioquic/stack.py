"""aioquic's names, and what it does in its own way. The peer qh3 has a file of the same name in place of this one."""

from aioquic.asyncio import QuicConnectionProtocol
from aioquic.asyncio.server import QuicServer
from aioquic.h0.connection import H0Connection
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.logger import QuicLogger
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

NAME = "aioquic"


def begin(session, server, early):
    """Begins the handshake; for 0-RTT its first flight waits for the first request."""
    session.connect(server, transmit=not early)


def has_room(_quic):
    """Whether a stream can be opened now: streams that the server does not allow yet wait in the stack."""
    return True


def validation(trace):
    """The part of a report that says how often the server has validated a path of the client."""
    packets = (event["data"] for event in _events(trace) if event["name"] == "transport:packet_sent")
    answers = sum(frame["frame_type"] == "path_response" for packet in packets for frame in packet["frames"])
    return {"path_challenges_answered": answers}


def negotiated(_session, trace):
    """Whether the trace has seen Version Negotiation."""
    return any("server_versions" in event["data"] for event in _events(trace))


def _events(trace):
    return (event for one in trace.to_dict()["traces"] for event in one["events"])
