"""The server: perf, hq-interop and h3 on one socket."""

import asyncio

import contract
import stack
from settings import MAX_PATTERN, bind, configuration, send_pattern
from stack import H0Connection, H3Connection, HeadersReceived, QuicConnectionProtocol, QuicServer, events

# Error code for streams without a valid request.
REFUSED = 1

# Length in bytes of a `perf` request: the number of bytes to send back.
PERF_HEAD = 8


async def run(options):
    """Serves until the process is told to end."""
    if options.no_migration or options.preferred or options.reset_key:
        lacks = "no disable_active_migration, preferred_address or reset key of a server"
        raise contract.Unsupported(f"{stack.NAME} has {lacks}")
    config = configuration(options, ["perf", "hq-interop", "h3"], is_client=False)
    config.load_cert_chain(options.cert, options.key)
    tickets = {}
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    transport, endpoint = await loop.create_datagram_endpoint(
        lambda: QuicServer(
            configuration=config,
            create_protocol=lambda *args, **kwargs: Session(options.root, *args, **kwargs),
            session_ticket_fetcher=tickets.get,
            session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
            retry=options.retry,
        ),
        sock=bind(*options.listen),
    )
    contract.on_ending(lambda: loop.call_soon_threadsafe(ended.set))
    contract.ready(*transport.get_extra_info("sockname")[:2])
    await ended.wait()
    endpoint.close()
    contract.report()


class Session(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, root, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._root = root
        self._http = None
        self._perf = {}

    def quic_event_received(self, event):
        """Looks at everything that happens on the connection."""
        match event:
            case events.ProtocolNegotiated(alpn_protocol="h3"):
                self._http = H3Connection(self._quic)
            case events.ProtocolNegotiated(alpn_protocol="hq-interop"):
                self._http = H0Connection(self._quic)
            case events.DatagramFrameReceived(data=data) if not self._http:
                self._quic.send_datagram_frame(data)
            case events.StreamDataReceived() if not self._http:
                self._answer_perf(event.stream_id, event.data, event.end_stream)
        if self._http:
            for happened in self._http.handle_event(event):
                if isinstance(happened, HeadersReceived):
                    self._answer(happened.stream_id, dict(happened.headers))

    def _answer_perf(self, stream_id, data, ended):
        # The first eight bytes are the number of bytes to send back; other data is discarded. The end of the
        # response tells the client that all of its data has arrived.
        head = self._perf.get(stream_id, b"")
        head = self._perf[stream_id] = head + data[: PERF_HEAD - len(head)]
        if not ended:
            return
        del self._perf[stream_id]
        count = int.from_bytes(head)
        if len(head) < PERF_HEAD or count > MAX_PATTERN:
            self._quic.reset_stream(stream_id, REFUSED)
        else:
            send_pattern(lambda piece, end: self._quic.send_stream_data(stream_id, piece, end), count)

    def _answer(self, stream_id, request):
        path = request.get(b":path", b"").decode(errors="replace")
        count = self._counted(path)
        file = contract.below(self._root, path)
        if count is not None:
            self._head(stream_id, 200, count)
            send_pattern(lambda piece, end: self._http.send_data(stream_id, piece, end), count)
        elif file is not None:
            body = file.read_bytes()
            self._head(stream_id, 200, len(body))
            self._http.send_data(stream_id, body, True)
        elif isinstance(self._http, H3Connection):
            self._head(stream_id, 404, 0)
            self._http.send_data(stream_id, b"", True)
        else:
            self._quic.reset_stream(stream_id, REFUSED)

    def _counted(self, path):
        digits = path.removeprefix("/bytes/")
        if digits == path or not isinstance(self._http, H3Connection) or not digits.isdecimal():
            return None
        return int(digits) if int(digits) <= MAX_PATTERN else None

    def _head(self, stream_id, status, length):
        self._http.send_headers(
            stream_id,
            [
                (b":status", str(status).encode()),
                (b"content-length", str(length).encode()),
                (b"content-type", b"application/octet-stream"),
                (b"server", stack.NAME.encode()),
            ],
        )
