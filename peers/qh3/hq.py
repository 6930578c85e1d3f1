"""HTTP/0.9 over QUIC, which qh3 has left out: one request line on each stream, and its answer without a head."""

from qh3.h3.events import DataReceived, HeadersReceived
from qh3.quic.events import StreamDataReceived


class H0Connection:
    """A connection with the interface of qh3's H3Connection, as far as the program needs it."""

    def __init__(self, quic):
        self._quic = quic
        self._is_client = quic.configuration.is_client
        self._requests = {}

    def handle_event(self, event):
        """What an event of the connection means for HTTP."""
        if not isinstance(event, StreamDataReceived):
            return []
        if self._is_client:
            return [DataReceived(event.data, event.stream_id, event.end_stream)]
        line = self._requests.pop(event.stream_id, b"") + event.data
        if not event.end_stream:
            self._requests[event.stream_id] = line
            return []
        method, _, path = line.strip().partition(b" ")
        return [HeadersReceived([(b":method", method), (b":path", path)], event.stream_id, True)]

    def send_headers(self, stream_id, headers, end_stream=False):
        """Sends a client's request; an answer has no head."""
        if self._is_client:
            fields = dict(headers)
            line = fields[b":method"] + b" " + fields[b":path"] + b"\r\n"
            self._quic.send_stream_data(stream_id, line, end_stream)

    def send_data(self, stream_id, data, end_stream):
        """Sends content."""
        self._quic.send_stream_data(stream_id, data, end_stream)
