"""Where the leaders named in a Produce or Fetch response can be reached (KIP-951)."""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.wire.primitives import (
    INT32,
    Readable,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_tags,
    skip_tagged_fields,
    uvarint,
)

_TAG = 0
_ENDPOINT_BYTES_MIN = 11


class NodeEndpoint(NamedTuple):
    """A broker's address, as its clients should use it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged section that ends a response: empty, or the endpoints under tag 0."""
    if not endpoints:
        return b"\x00"
    encoded = bytearray(uvarint(len(endpoints) + 1))
    for node_id, host, port, rack in endpoints:
        encoded += INT32.pack(node_id) + encode_string(host, flexible=True)
        encoded += INT32.pack(port) + encode_string(rack, flexible=True) + b"\x00"
    return b"\x01" + uvarint(_TAG) + uvarint(len(encoded)) + encoded


def parse_endpoints(buffer: Readable, position: int) -> list[NodeEndpoint]:
    """The endpoints of the tagged section at `position`; none if it does not hold them."""
    starts, _ = read_tags(buffer, position)
    start = starts.get(_TAG)
    if start is None:
        return []
    count, start = read_count(buffer, start, flexible=True, element_bytes=_ENDPOINT_BYTES_MIN)
    endpoints = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(buffer, start)
        host, start = read_compact_string(buffer, start + 4)
        (port,) = INT32.unpack_from(buffer, start)
        rack, start = read_compact_nullable_string(buffer, start + 4)
        start = skip_tagged_fields(buffer, start)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints
