"""qh3's names, and what it does in its own way, for the program of the peer aioquic, which it is a fork of."""

from hq import H0Connection
from qh3.asyncio.protocol import QuicConnectionProtocol
from qh3.asyncio.server import QuicServer
from qh3.h3.connection import H3Connection
from qh3.h3.events import DataReceived, HeadersReceived
from qh3.quic import events
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.logger import QuicLogger
from qh3.quic.packet import QuicProtocolVersion
from qh3.tls import CipherSuite

NAME = "qh3"


def begin(session, server, _early):
    """Begins the handshake."""
    session.connect(server)


def has_room(quic):
    """Whether a stream can be opened now; qh3 refuses those that the server does not allow yet."""
    if not quic._handshake_complete:
        return True
    return quic.get_next_available_stream_id() // 4 < quic.max_concurrent_bidi_streams


def validation(_trace):
    """Nothing: traces of qh3 show packets without their frames, so that only the other end sees which paths were validated."""
    return {}


def negotiated(session, _trace):
    """Whether Version Negotiation has come; the trace does not show it."""
    return session._quic._version_negotiated
