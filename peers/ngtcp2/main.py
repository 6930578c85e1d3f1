"""ngtcp2 as a peer: its example programs gtlsclient and gtlsserver behind the contract of peers/README.md."""

import client
import contract
import server

contract.main(server.run, client.run)
