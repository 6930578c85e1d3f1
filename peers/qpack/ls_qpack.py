"""ls-qpack, which aioquic uses, from file to file; the formats are those of crates/http3/examples/qpack_interop.rs."""

import struct
import sys

from pylsqpack import Decoder, Encoder, StreamBlocked


def read_lists(path):
    with open(path, "rb") as file:
        lists = file.read().split(b"\n\n")
    return [[tuple(line.split(b"\t", 1)) for line in each.split(b"\n")] for each in lists if each.strip()]


def encode(lists, capacity, blocked, acknowledge):
    """Yields records. With `acknowledge` a decoder answers each section at once, otherwise never."""
    encoder, decoder = Encoder(), Decoder(capacity, blocked)
    setup = encoder.apply_settings(capacity, blocked)
    decoder.feed_encoder(setup)
    yield 0, setup
    for stream, headers in enumerate(lists, 1):
        instructions, section = encoder.encode(stream, headers)
        if acknowledge:
            yield 0, instructions
            yield stream, section
            decoder.feed_encoder(instructions)
            encoder.feed_decoder(decoder.feed_header(stream, section)[0])
        else:
            yield stream, section
            yield 0, instructions


def decode(data, capacity, blocked):
    """The lists in the order of their streams."""
    decoder, lists, position = Decoder(capacity, blocked), {}, 0
    while position < len(data):
        stream, length = struct.unpack_from(">QI", data, position)
        payload = data[position + 12 : position + 12 + length]
        position += 12 + length
        if stream == 0:
            for unblocked in decoder.feed_encoder(payload):
                lists[unblocked] = decoder.resume_header(unblocked)[1]
        else:
            lists[stream] = None
            try:
                lists[stream] = decoder.feed_header(stream, payload)[1]
            except StreamBlocked:
                pass
    return [lists[stream] for stream in sorted(lists)]


def main():
    verb, source, target, capacity, blocked = sys.argv[1:6]
    with open(target, "wb") as out:
        if verb == "encode":
            for stream, payload in encode(read_lists(source), int(capacity), int(blocked), sys.argv[6] == "1"):
                if payload:
                    out.write(struct.pack(">QI", stream, len(payload)) + payload)
        else:
            with open(source, "rb") as file:
                data = file.read()
            for headers in decode(data, int(capacity), int(blocked)):
                if headers is None:
                    sys.exit("a stream still waits")
                out.write(b"".join(name + b"\t" + value + b"\n" for name, value in headers) + b"\n")


main()
