"""One connection of a client and what it does there."""

import asyncio

import contract
import stack
from settings import send_pattern
from stack import DataReceived, H0Connection, H3Connection, HeadersReceived, QuicConnectionProtocol, events


# Time in seconds between two looks for room for a stream.
LOOK = 0.005


class Stream:
    """A request: what has come of its answer, and who waits for its end."""

    def __init__(self, keep):
        self.ended = asyncio.get_running_loop().create_future()
        self.body = bytearray() if keep else None
        self.received = 0

    def fail(self, why):
        """Gives up."""
        if not self.ended.done():
            self.ended.set_exception(contract.Failed(why))


class Session(QuicConnectionProtocol):
    """A connection that counts what moves and does something in the middle."""

    def __init__(self, options, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._options = options
        self._streams = {}
        self._http = {"h3": H3Connection, "hq-interop": H0Connection}.get(options.alpn, lambda _: None)(self._quic)
        # Held by the request that waits for room, so that only one of them looks.
        self._turn = asyncio.Lock()
        self.handshake = None
        self.echoes = asyncio.Queue()
        self.moved = 0
        # The middle of a fetch, whose length is not known, is its first byte.
        self._threshold = max((options.download + options.upload) // 2, 1)
        self.middle = asyncio.Event()

    @property
    def version(self):
        """The negotiated version; the stack's interface has no word for it."""
        return f"0x{self._quic._version:08x}"

    def quic_event_received(self, event):
        """Looks at everything that happens on the connection."""
        match event:
            case events.HandshakeCompleted():
                self.handshake = event
            case events.DatagramFrameReceived(data=data):
                self.echoes.put_nowait(data)
            case events.StreamReset(stream_id=stream_id) if stream_id in self._streams:
                self._streams[stream_id].fail(f"stream reset with {event.error_code:#x}")
            case events.ConnectionTerminated():
                for stream in self._streams.values():
                    stream.fail(f"closed with error {event.error_code:#x} {event.reason_phrase}")
            case events.StreamDataReceived(stream_id=stream_id) if not self._http:
                self._received(stream_id, event.data, event.end_stream)
        for happened in self._http.handle_event(event) if self._http else []:
            match happened:
                case HeadersReceived(headers=headers, stream_id=stream_id) if stream_id in self._streams:
                    status = dict(headers).get(b":status", b"200")
                    if status != b"200":
                        self._streams[stream_id].fail(f"the status is {status.decode()}")
                    self._received(stream_id, b"", happened.stream_ended)
                case DataReceived(data=data, stream_id=stream_id):
                    self._received(stream_id, data, happened.stream_ended)

    def _count(self, moved):
        self.moved += moved
        if self.moved >= self._threshold:
            self.middle.set()

    def _received(self, stream_id, data, ended):
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.received += len(data)
        if stream.body is not None:
            stream.body += data
        self._count(len(data))
        if ended and not stream.ended.done():
            stream.ended.set_result(None)

    def _open(self, keep=False):
        stream_id = self._quic.get_next_available_stream_id()
        stream = self._streams[stream_id] = Stream(keep)
        return stream_id, stream

    async def _finished(self, stream_id, stream):
        self.transmit()
        await stream.ended
        del self._streams[stream_id]

    async def get(self, path, out):
        """Fetches a path and stores the answer in `out`, or drops it."""
        target = contract.destination(out, path) if out else None
        async with self._turn:
            while not stack.has_room(self._quic):
                await asyncio.sleep(LOOK)
        stream_id, stream = self._open(keep=target is not None)
        path = "/" + path.lstrip("/")
        request = {":method": "GET", ":scheme": "https", ":authority": self._options.name, ":path": path}
        fields = [(name.encode(), value.encode()) for name, value in request.items()]
        self._http.send_headers(stream_id, fields, end_stream=True)
        await self._finished(stream_id, stream)
        if target:
            target.write_bytes(stream.body)

    async def perf(self, download, upload):
        """Asks for some bytes and sends others."""
        stream_id, stream = self._open()
        self._quic.send_stream_data(stream_id, download.to_bytes(8))
        send_pattern(lambda piece, end: self._quic.send_stream_data(stream_id, piece, end), upload)
        self._count(upload)
        await self._finished(stream_id, stream)
        if stream.received != download:
            raise contract.Failed(f"asked for {download} bytes, got {stream.received}")

    async def work(self, paths):
        """Does all that the options ask for; `paths` are those to fetch."""
        options = self._options
        async with asyncio.TaskGroup() as tasks:
            if options.alpn != "perf":
                for path in paths:
                    tasks.create_task(self.get(path, options.out))
                return
            count = options.streams
            for index in range(count):
                shares = (
                    total // count + (index < total % count) for total in (options.download, options.upload)
                )
                tasks.create_task(self.perf(*shares))
