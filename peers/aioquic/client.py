"""The client's cases."""

import asyncio
import time
from contextlib import asynccontextmanager

import contract
import stack
from settings import bind, configuration
from stack import CipherSuite, QuicConnection, QuicLogger, QuicProtocolVersion
from work import Session

# A version that no server supports. Its form is reserved to trigger Version Negotiation (RFC 9000 §15).
RESERVED_VERSION = 0x1A2A3A4A

# Timeouts in seconds: for the last echoed datagram, and for a session ticket.
ECHO_WAIT = 2
TICKET_WAIT = 5

# Cases whose result is verified with the stack's own trace.
TRACED = ("rebind", "migration", "versionnegotiation", "v2")


async def run(options):
    """Does what the options ask for and prints what was observed."""
    caller = Caller(options)
    try:
        if options.handshakes:
            await caller.handshakes()
        elif options.requests:
            await caller.requests()
        elif options.case in ("resumption", "zerortt"):
            await caller.twice()
        elif options.datagrams:
            await caller.datagrams()
        elif options.case == "ecn":
            raise contract.Unsupported(f"{stack.NAME} neither marks nor reads ECN")
        else:
            await caller.once()
    except* (contract.Failed, OSError) as failures:
        first = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


class Caller:
    """Knows where to connect, and with which settings."""

    def __init__(self, options):
        self.options = options
        self.tickets = asyncio.Queue()
        self.trace = QuicLogger() if options.case in TRACED else None
        self.config = configuration(options, [options.alpn], is_client=True)
        self.config.server_name = options.name
        self.config.quic_logger = self.trace
        self.config.load_verify_locations(cafile=options.ca)
        versions = self.config.supported_versions
        if options.case == "v2":
            versions[:] = [QuicProtocolVersion.VERSION_2]
        if options.case == "versionnegotiation":
            versions.insert(0, RESERVED_VERSION)
        if options.case == "chacha20":
            self.config.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]

    def server(self):
        """The server's address as the socket reports it, for the stack compares the two."""
        host, port = self.options.connect
        return (host, port, 0, 0) if ":" in host else (host, port)

    def bind(self):
        """A fresh socket for the server's address family."""
        return bind("::" if ":" in self.options.connect[0] else "0.0.0.0", 0)

    @asynccontextmanager
    async def connect(self, early=False):
        """A connection, after its handshake unless it is for 0-RTT; closed at the end."""
        loop = asyncio.get_running_loop()
        quic = QuicConnection(configuration=self.config, session_ticket_handler=self.tickets.put_nowait)
        _, session = await loop.create_datagram_endpoint(lambda: Session(self.options, quic), sock=self.bind())
        try:
            stack.begin(session, self.server(), early)
            if not early:
                try:
                    await session.wait_connected()
                except ConnectionError:
                    raise contract.Failed(f"no connection: {quic._close_event.reason_phrase}") from None
            yield session
        finally:
            session.close()
            await session.wait_closed()
            session._transport.close()

    def observed(self, session, seconds):
        """The start of a case's report."""
        base = {"case": self.options.case, "version": session.version}
        return base | contract.goodput(session.moved, seconds)

    async def once(self):
        """The work on one connection, with something in the middle for some cases."""
        options = self.options
        async with self.connect() as session:
            start = time.monotonic()
            acting = asyncio.create_task(self.act(session))
            await session.work(options.paths)
            seconds = time.monotonic() - start
            in_time = acting.done()
            acting.cancel()
            observed = self.observed(session, seconds)
            if options.case == "keyupdate":
                observed["key_updates"] = int(in_time)
            if options.case in ("rebind", "migration"):
                observed["migrations"] = int(in_time)
                observed |= stack.validation(self.trace)
            if options.case == "versionnegotiation":
                observed["version_negotiation"] = stack.negotiated(session, self.trace)
            contract.report(**observed)
        self.judge(observed, in_time)

    async def act(self, session):
        """What happens in the middle."""
        await session.middle.wait()
        match self.options.case:
            case "keyupdate":
                session.request_key_update()
            case "rebind" | "migration":
                if self.options.case == "migration":
                    session.change_connection_id()
                session._transport.close()
                await asyncio.get_running_loop().create_datagram_endpoint(lambda: session, sock=self.bind())
                # Otherwise a client that only receives, and has acknowledged everything, never shows its new address.
                await session.ping()

    def judge(self, observed, in_time):
        """Whether the case worked."""
        case = self.options.case
        if case in ("keyupdate", "rebind", "migration") and not in_time:
            raise contract.Failed("the work ended before its middle")
        if observed.get("path_challenges_answered") == 0:
            raise contract.Failed("the server did not validate the new path")
        if observed.get("version_negotiation") is False:
            raise contract.Failed("the server did not negotiate the version")

    async def twice(self):
        """Two connections; the second uses what the first one was given."""
        first, second = contract.halves(self.options.paths)
        async with self.connect() as session:
            await session.work(first)
            try:
                self.config.session_ticket = await asyncio.wait_for(self.tickets.get(), TICKET_WAIT)
            except TimeoutError:
                raise contract.Failed("no session ticket arrived") from None
        early = self.options.case == "zerortt"
        async with self.connect(early) as session:
            start = time.monotonic()
            await session.work(second)
            seconds = time.monotonic() - start
            resumed = session.handshake.session_resumed
            accepted = early and session.handshake.early_data_accepted
            observed = self.observed(session, seconds)
            contract.report(**observed, resumed=resumed, zero_rtt_accepted=accepted)
        if not resumed:
            raise contract.Failed("the second handshake was a full one")
        if early and not accepted:
            raise contract.Failed("0-RTT was not accepted")

    async def datagrams(self):
        """Sends datagrams and counts those that come back."""
        count, echoed = self.options.datagrams, 0
        async with self.connect() as session:
            for number in range(count):
                session._quic.send_datagram_frame(number.to_bytes(8))
            session.transmit()
            try:
                async with asyncio.timeout(ECHO_WAIT):
                    while echoed < count:
                        echoed += len(await session.echoes.get()) == 8
            except TimeoutError:
                pass
            contract.report(case="datagram", version=session.version, sent=count, echoed=echoed)
        if not echoed:
            raise contract.Failed("no datagram came back")

    async def requests(self):
        """The same request again and again over some connections."""
        options = self.options
        left = iter(range(options.requests))

        async def lane(session):
            for _ in left:
                await session.get(options.paths[0], None)

        async def keep(connected, go, done):
            async with self.connect() as session:
                connected.release()
                await go.wait()
                async with asyncio.TaskGroup() as lanes:
                    for _ in range(options.concurrency):
                        lanes.create_task(lane(session))
                done.append(session.moved)

        connected, go, moved = asyncio.Semaphore(0), asyncio.Event(), []
        async with asyncio.TaskGroup() as tasks:
            for _ in range(options.connections):
                tasks.create_task(keep(connected, go, moved))
            for _ in range(options.connections):
                await connected.acquire()
            start = time.monotonic()
            go.set()
        seconds = time.monotonic() - start
        contract.report(
            requests=options.requests,
            bytes=sum(moved),
            seconds=round(seconds, 6),
            requests_per_s=round(options.requests / seconds, 1),
        )

    async def handshakes(self):
        """Full handshakes, one after another in each of some lanes."""
        left = iter(range(self.options.handshakes))

        async def lane():
            for _ in left:
                async with self.connect():
                    pass

        start = time.monotonic()
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self.options.concurrency):
                lanes.create_task(lane())
        contract.report(handshakes=self.options.handshakes, seconds=round(time.monotonic() - start, 6))
