"""Reads a pcapng file twice: with scapy, and block by block by draft-ietf-opsawg-pcapng, because scapy omits
comments and directions. Both must find the same packets at the same times. Prints one JSON document: the packets
in order."""

import json
import struct
import sys

from scapy.utils import PcapNgReader

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
COMMENT, FLAGS, NAME, RESOLUTION = 1, 2, 2, 9


def options(body, order):
    found = {}
    while len(body) >= 4:
        code, length = struct.unpack(order + "HH", body[:4])
        if code == 0:
            break
        found.setdefault(code, []).append(body[4 : 4 + length])
        body = body[4 + (length + 3) // 4 * 4 :]
    return found


def blocks(data):
    order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
    at = 0
    while at < len(data):
        kind, length = struct.unpack(order + "II", data[at : at + 8])
        assert length % 4 == 0 and length >= 12, (at, length)
        (again,) = struct.unpack(order + "I", data[at + length - 4 : at + length])
        assert length == again, (at, length, again)
        yield kind, data[at + 8 : at + length - 4], order
        at += length
    assert at == len(data), "the last block is cut"


def packets(data):
    interfaces, found = [], []
    for kind, body, order in blocks(data):
        if kind == INTERFACE:
            (link,) = struct.unpack(order + "H", body[:2])
            given = options(body[8:], order)
            assert link == 1, "Ethernet"
            interfaces.append((given[NAME][0].decode(), given[RESOLUTION][0][0]))
        elif kind == PACKET:
            interface, high, low, captured, original = struct.unpack(order + "IIIII", body[:20])
            name, resolution = interfaces[interface]
            given = options(body[20 + (captured + 3) // 4 * 4 :], order)
            assert captured == original and resolution == 9
            found.append(
                {
                    "interface": name,
                    "at_ns": high << 32 | low,
                    "hex": body[20 : 20 + captured].hex(),
                    "comments": [text.decode() for text in given.get(COMMENT, [])],
                    "flags": struct.unpack(order + "I", given[FLAGS][0])[0],
                }
            )
        else:
            assert kind == SECTION, kind
    return found


def main():
    with open(sys.argv[1], "rb") as file:
        own = packets(file.read())
    theirs = list(PcapNgReader(sys.argv[1]))
    assert len(own) == len(theirs), (len(own), len(theirs))
    for mine, other in zip(own, theirs):
        assert bytes.fromhex(mine["hex"]) == bytes(other), mine
        # scapy's times have limited precision.
        assert abs(mine["at_ns"] / 1e9 - float(other.time)) < 1e-5, (mine["at_ns"], other.time)
    print(json.dumps(own))


main()
