"""aioquic, or qh3, as a peer: see peers/README.md for the contract."""

import asyncio
import logging

import client
import contract
import server


def main():
    # The log of the stack is discarded; stderr is reserved for the reason of a failure.
    logging.getLogger("quic").addHandler(logging.NullHandler())
    logging.getLogger("quic").propagate = False
    contract.main(lambda options: asyncio.run(server.run(options)), lambda options: asyncio.run(client.run(options)))


main()
