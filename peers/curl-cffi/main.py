"""libcurl as a peer, as curl_cffi carries it: see peers/README.md for the contract."""

import asyncio

import client
import contract


def serve(_options):
    """There is no server."""
    raise contract.Unsupported("libcurl is a client only")


contract.main(serve, lambda options: asyncio.run(client.run(options)))
