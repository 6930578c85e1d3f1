"""The client's cases: h3 only."""

import asyncio
import time
from contextlib import ExitStack

import contract
from curl_cffi import AsyncCurl, Curl, CurlError, CurlHttpVersion, CurlInfo, CurlMOpt, CurlOpt

# What libcurl lacks for a case.
LACKING = {
    "resumption": "libcurl does not say whether a session that it offered was resumed",
    "chacha20": "libcurl with BoringSSL cannot choose the suites of TLS 1.3",
    "keyupdate": "libcurl has nothing that updates keys",
    "v2": "libcurl offers only QUIC version 1",
    "versionnegotiation": "libcurl offers only QUIC version 1",
    "rebind": "libcurl has nothing that changes its port",
    "migration": "libcurl has nothing that changes its socket",
    "datagram": "libcurl has no DATAGRAM frames",
    "ecn": "libcurl does not say what became of its ECN marks",
}

# CURLOPT_SSL_OPTIONS: early data (CURLSSLOPT_EARLYDATA).
EARLY_DATA = 1 << 6

# Number of transfers that may share the connection at once.
AT_ONCE = 100


async def run(options):
    """Does what the options ask for and prints what was observed."""
    if why := LACKING.get(options.case):
        raise contract.Unsupported(why)
    if options.alpn != "h3" or options.requests:
        raise contract.Unsupported("the peer's program only fetches over HTTP/3")
    caller = Caller(options)
    try:
        await (caller.twice() if options.case == "zerortt" else caller.once())
    finally:
        await caller.multi.close()


class Caller:
    """Runs transfers that share their connection."""

    def __init__(self, options):
        self.options = options
        self.multi = AsyncCurl()
        self.multi.setopt(CurlMOpt.MAX_CONCURRENT_STREAMS, AT_ONCE)
        # Whether transfers close their connection.
        self.last = False

    def transfer(self, path, into):
        """A transfer of `path` whose content goes to `into`."""
        options = self.options
        host, port = options.connect
        curl = Curl()
        settings = {
            CurlOpt.URL: f"https://{options.name}:{port}/{path.lstrip('/')}",
            CurlOpt.RESOLVE: [f"{options.name}:{port}:{contract.shown(host, '')[:-1]}"],
            CurlOpt.CAINFO: options.ca,
            CurlOpt.HTTP_VERSION: CurlHttpVersion.V3ONLY,
            CurlOpt.CONNECTTIMEOUT_MS: options.idle_ms,
            # Waits for the connection that is being made instead of making another one.
            CurlOpt.PIPEWAIT: 1,
            CurlOpt.WRITEDATA: into,
            CurlOpt.FORBID_REUSE: self.last,
        }
        if options.case == "zerortt":
            settings[CurlOpt.SSL_OPTIONS] = EARLY_DATA
        for option, value in settings.items():
            curl.setopt(option, value)
        return curl

    async def fetch(self, paths):
        """Fetches paths over one connection; returns the transfers."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(path):
            with ExitStack() as stack:
                into = stack.enter_context(open(self.where(path), "wb"))
                curl = self.transfer(path, into)
                async with limit:
                    try:
                        await self.multi.add_handle(curl)
                    except CurlError as error:
                        raise contract.Failed(str(error)) from None
            status = curl.getinfo(CurlInfo.RESPONSE_CODE)
            if status != 200:
                raise contract.Failed(f"the status is {status}")
            return curl

        try:
            async with asyncio.TaskGroup() as tasks:
                done = [tasks.create_task(one(path)) for path in paths]
        except* (contract.Failed, OSError) as failures:
            first = failures
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None
        transfers = [task.result() for task in done]
        connections = sum(curl.getinfo(CurlInfo.NUM_CONNECTS) for curl in transfers)
        if connections != 1:
            raise contract.Failed(f"{connections} connections were made")
        return transfers

    def where(self, path):
        """The file for a path's content."""
        return contract.destination(self.options.out, path) if self.options.out else "/dev/null"

    def observed(self, transfers, seconds):
        """The start of a case's report."""
        moved = sum(curl.getinfo(CurlInfo.SIZE_DOWNLOAD_T) for curl in transfers)
        return {"case": self.options.case, "version": "0x00000001"} | contract.goodput(moved, seconds)

    async def once(self):
        """The work on one connection."""
        start = time.monotonic()
        transfers = await self.fetch(self.options.paths)
        contract.report(**self.observed(transfers, time.monotonic() - start))

    async def twice(self):
        """Two connections; the second uses the session of the first."""
        first, second = contract.halves(self.options.paths)
        self.last = True
        await self.fetch(first)
        self.last = False
        start = time.monotonic()
        transfers = await self.fetch(second)
        observed = self.observed(transfers, time.monotonic() - start)
        early = sum(curl.getinfo(CurlInfo.EARLYDATA_SENT_T) for curl in transfers)
        contract.report(**observed, zero_rtt_accepted=early > 0)
        if not early:
            raise contract.Unsupported("libcurl with ngtcp2 and BoringSSL sends no early data")
