"""What the log of gtlsclient shows."""

import re

STATUS = re.compile(r"^http: stream \S+ \[:status: (\d+)\]")
HANDSHAKE = re.compile(r"frm rx \d+ Handshake CRYPTO\(0x06\) offset=(\d+) len=(\d+)")
VERSION = re.compile(r"the negotiated version is (0x[0-9a-f]+)")
CIPHER = re.compile(r"^Negotiated cipher suite is (\S+)")
ERROR = re.compile(r"\b(ERR_\w+)")

# HTTP/3's H3_NO_ERROR.
NO_ERROR = "closed with error code 256"


class Evidence:
    """Facts from one run."""

    def __init__(self, lines):
        self.completed = False
        self.statuses = []
        self.closed = 0
        self.version = None
        self.cipher = ""
        self.handshake_bytes = 0
        self.early_packets = 0
        self.early_rejected = False
        self.key_updates = 0
        self._asked_for_update = False
        self.challenges_answered = 0
        self.responses = 0
        self.version_negotiation = False
        self.retry = False
        self.ecn_capable = False
        self.last_error = None
        for line in lines:
            self._take(line)

    def _take(self, line):
        if match := STATUS.search(line):
            self.statuses.append(match[1])
        elif match := HANDSHAKE.search(line):
            self.handshake_bytes = max(self.handshake_bytes, int(match[1]) + int(match[2]))
        elif match := VERSION.search(line):
            self.version = match[1]
        elif match := CIPHER.search(line):
            self.cipher = match[1]
        elif match := ERROR.search(line):
            self.last_error = match[1]
            self.version_negotiation |= match[1] == "ERR_RECV_VERSION_NEGOTIATION"
        elif line.startswith("HTTP stream"):
            self.closed += NO_ERROR in line
        elif line.startswith("QUIC handshake has completed"):
            self.completed = True
        elif line.startswith("Initiate key update"):
            self._asked_for_update = True
        elif line.startswith("Early data was rejected"):
            self.early_rejected = True
        else:
            self._take_packet(line)

    def _take_packet(self, line):
        if "pkt tx" in line:
            self.early_packets += "type=0RTT" in line
        elif "pkt rx" in line:
            self.retry |= "type=Retry" in line
            # A received packet with the changed key phase bit shows that the server has updated its keys.
            if self._asked_for_update and "type=1RTT k=1" in line:
                self.key_updates = 1
        elif "frm tx" in line:
            self.challenges_answered += "PATH_RESPONSE" in line
        elif "frm rx" in line:
            self.responses += "PATH_RESPONSE" in line
        elif "path is ECN capable" in line:
            self.ecn_capable = True
