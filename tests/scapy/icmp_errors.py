"""Judges the ICMP errors that the gateway sends about packets that it drops (RFC 1812, RFC 4443).

Each drop with one of these reasons is told to the sender, or counted as not told: every error must belong to one dropped
packet, quote it as it was received, and return the way it came.
"""

from collections import Counter

from scapy.all import IP, Ether, IPv6
from scapy.layers.vxlan import VXLAN

# Type and code of ICMP and of ICMPv6, by drop reason.
ERRORS = {
    "inner_ttl_expired": ((11, 0), (3, 0)),
    "exceeds_mtu": ((3, 4), (2, 0)),
    "no_route": ((3, 0), (1, 0)),
    "unknown_vm": ((3, 1), (1, 3)),
}
# Reasons under which an error is counted that is not sent.
NOT_TOLD = ("icmp_limited", "icmp_forbidden")
# The quote of an error ends after this number of bytes behind the IP header.
QUOTED = 512


def parts(frame):
    """Returns outer IP, VXLAN, inner Ethernet, and the inner packet's bytes without padding."""
    packet = Ether(bytes(frame))
    tunnel = packet.getlayer(VXLAN)
    if tunnel is None or not isinstance(tunnel.payload.payload, (IP, IPv6)):
        return None
    inner = tunnel.payload.payload
    length = inner.len if isinstance(inner, IP) else inner.plen + 40
    return packet.payload, tunnel, tunnel.payload, bytes(inner)[:length]


def icmp_of(inner):
    """Returns type, code and the whole ICMP message of an inner packet, or None."""
    at, protocol = (20, inner[9]) if inner[0] >> 4 == 4 else (40, inner[6])
    message = inner[at:]
    if protocol not in (1, 58) or len(message) < 8:
        return None
    return (message[0], message[1]), message


def is_error(frame):
    """Whether a frame that left is an ICMP error of the gateway: from the first address of a subnet."""
    found = parts(frame)
    icmp = found and icmp_of(found[3])
    if not icmp or icmp[0] not in {kind for pair in ERRORS.values() for kind in pair}:
        return False
    source = Ether(bytes(frame))[VXLAN].payload.payload.src
    return source.endswith((".1", "::1", ".8"))


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(data[at:at + 2], "big") for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def judge_errors(name, cases, errors, summary, verdict):
    """Compares the errors of a family with its dropped packets. Returns the counts of errors that were not sent."""
    dropped = {}
    for case, port, frame, fate in cases:
        if fate[0] == "drop" and fate[1] in ERRORS and (found := parts(frame)):
            dropped.setdefault(found[3], []).append((case, port, fate[1], found))
    for port, frame in errors:
        outer, tunnel, ethernet, inner = parts(frame)
        kind, message = icmp_of(inner)
        where = f"{name}: an ICMP error {kind} at port {port}"
        v4 = inner[0] >> 4 == 4
        quoted = message[8:]
        causes = [whole for whole in dropped if whole.startswith(quoted) and dropped[whole]]
        if not causes:
            verdict.fail(where, f"quotes no dropped packet: {quoted.hex()}")
            continue
        case, came_by, reason, (was_outer, was_tunnel, was_ethernet, was) = dropped[causes[0]].pop()
        where = f"{name}: the error about {case}"
        header = 20 if was[0] >> 4 == 4 else 40
        verdict.same(where, "type and code", kind, ERRORS[reason][0 if v4 else 1])
        verdict.same(where, "length of the quote", len(quoted), min(len(was), header + QUOTED))
        verdict.same(where, "port", port, str(came_by))
        verdict.same(where, "outer destination", outer.dst, was_outer.src)
        verdict.same(where, "VNI", tunnel.vni, was_tunnel.vni)
        verdict.same(where, "MAC addresses", (ethernet.dst, ethernet.src), (was_ethernet.src, was_ethernet.dst))
        sender = IP(was).src if header == 20 else IPv6(was).src
        verdict.same(where, "receiver", IP(inner).dst if v4 else IPv6(inner).dst, sender)
        covered = message if v4 else inner[8:40] + len(message).to_bytes(4, "big") + b"\0\0\0\x3a" + message
        verdict.same(where, "sum over the ICMP message", checksum(covered), 0xFFFF)
        if v4:
            verdict.same(where, "sum over the IPv4 header", checksum(inner[:20]), 0xFFFF)
        if reason == "exceeds_mtu":
            told = int.from_bytes(message[6:8] if v4 else message[4:8], "big")
            verdict.same(where, "MTU leaves room for the tunnel", told in (1600 - 50, 1600 - 70), True)
        verdict.checksums += 1
        verdict.packets += 1
        verdict.integrity(where, frame)
    untold = Counter({reason: count["packets"] for reason, count in summary["drops"].items() if reason in NOT_TOLD})
    left = sum(len(packets) for packets in dropped.values())
    verdict.same(name, "dropped packets without an error, and errors that were not sent", left, sum(untold.values()))
    return untold
