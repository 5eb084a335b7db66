"""Tenants' packets in VXLAN, as servers send them, and the frames that the gateway must send. Built with scapy alone."""

import struct
import zlib
from ipaddress import ip_address

from scapy.all import ICMP, IP, UDP, Ether, ICMPv6EchoRequest, IPv6, Raw
from scapy.layers.inet6 import IPv6ExtHdrFragment
from scapy.layers.vxlan import VXLAN

from lab import GATEWAY_MAC, VTEP

VXLAN_PORT = 4789


def inner_ip(sender, receiver, family, **fields):
    """Returns the IP header of a tenant's packet; `tos` is DSCP and ECN, `ttl` the TTL or hop limit."""
    source = fields.pop("src", sender.address(family))
    destination = fields.pop("dst", receiver if isinstance(receiver, str) else receiver.address(family))
    tos, ttl = fields.pop("tos", 0), fields.pop("ttl", 64)
    if family == 4:
        return IP(src=source, dst=destination, tos=tos, ttl=ttl, **fields)
    return IPv6(src=source, dst=destination, tc=tos, hlim=ttl, **fields)


def echo(family, ident=1):
    return ICMP(id=ident, seq=7) if family == 4 else ICMPv6EchoRequest(id=ident, seq=7)


def inner_frame(sender, packet, **ether):
    return Ether(src=sender.mac, dst=GATEWAY_MAC, **ether) / packet


def outer(sender, payload, **change):
    """Returns a tenant's frame with the headers of the sender's server. `change` sets single fields of these headers."""
    host = sender.host
    tos = change.pop("tos", 0)
    vxlan = {"flags": 0x08, "vni": change.pop("vni", sender.sending_vni)} | change.pop("vxlan", {})
    udp = {"sport": 51000, "dport": VXLAN_PORT} | change.pop("udp", {})
    ip_fields = change.pop("ip", {})
    if host.family == 4:
        ip = IP(**({"src": host.address, "dst": VTEP[4], "tos": tos, "id": 0x1234} | ip_fields))
    else:
        ip = IPv6(**({"src": host.address, "dst": VTEP[6], "tc": tos, "fl": 0x12345} | ip_fields))
    assert not change, change
    return Ether(src=host.mac, dst=host.gateway_mac) / ip / UDP(**udp) / VXLAN(**vxlan) / payload


def congestion(outer_ecn, inner_ecn):
    """Returns the inner field after decapsulation by RFC 6040, figure 4; None if the packet is dropped."""
    not_ect, ect1, ect0, ce = 0, 1, 2, 3
    table = {
        not_ect: {not_ect: not_ect, ect0: not_ect, ect1: not_ect, ce: None},
        ect0: {not_ect: ect0, ect0: ect0, ect1: ect1, ce: ce},
        ect1: {not_ect: ect1, ect0: ect1, ect1: ect1, ce: ce},
        ce: {not_ect: ce, ect0: ce, ect1: ce, ce: ce},
    }
    return table[inner_ecn][outer_ecn]


def layer_4(packet):
    """Returns the protocol after all extension headers, the bytes from there on, and whether it is unfragmented."""
    data = bytes(packet)
    if packet.version == 4:
        protocol, rest = data[9], data[4 * (data[0] & 15):]
        whole, extensions = struct.unpack("!H", data[6:8])[0] & 0x3FFF == 0, (51,)
    else:
        protocol, rest, whole, extensions = data[6], data[40:], True, (0, 43, 44, 51, 60, 135, 139, 140)
    while protocol in extensions and len(rest) >= 8:
        if protocol == 44:
            whole, length, later = False, 8, struct.unpack("!H", rest[2:4])[0] >> 3 != 0
        else:
            length, later = 4 * rest[1] + 8 if protocol == 51 else 8 * rest[1] + 8, False
        protocol, rest = rest[0], rest[length:]
        if later:
            break
    return protocol, rest, whole


def flow_hash(packet):
    """Returns the CRC-32 of addresses, protocol and ports of the tenant's packet, by programs/gateway/README.md."""
    ports = b"\0\0\0\0"
    protocol, rest, whole = layer_4(packet)
    if whole and protocol in (6, 17, 33, 132, 136):
        ports = rest[:4]
    elif whole and protocol == (1 if packet.version == 4 else 58):
        ports = struct.pack("!HH", rest[0], rest[1])
    addresses = ip_address(packet.src).packed + ip_address(packet.dst).packed
    return zlib.crc32(addresses + bytes([protocol]) + ports)


def same_subnet(source, destination):
    """Returns whether two addresses share a subnet. The region's subnets are a /24 of IPv4 or a /64 of IPv6 each."""
    bits = 8 if ip_address(source).version == 4 else 64
    return int(ip_address(source)) >> bits == int(ip_address(destination)) >> bits


def expected(sent, receiver):
    """Returns the frame that must leave for `sent`. Scapy computes the lengths and checksums that the gateway must compute."""
    tenant = sent[VXLAN].payload.payload.copy()
    came = sent[IP] if sent.type == 0x0800 else sent[IPv6]
    tos = came.tos if came.version == 4 else came.tc
    inner_tos = tenant.tos if tenant.version == 4 else tenant.tc
    ecn = congestion(tos & 3, inner_tos & 3)
    assert ecn is not None, "this packet is to be dropped"
    hashed = flow_hash(tenant)
    # From bytes, so that fields that scapy filled in have their values.
    tenant = type(tenant)(bytes(tenant))
    hop = 0 if sent[VXLAN].vni == receiver.vni and same_subnet(tenant.src, tenant.dst) else 1
    if tenant.version == 4:
        tenant.tos, tenant.ttl = inner_tos & 0xFC | ecn, tenant.ttl - hop
        del tenant.chksum
    else:
        tenant.tc, tenant.hlim = inner_tos & 0xFC | ecn, tenant.hlim - hop
    host = receiver.host
    tos = tos & 0xFC | ecn
    if host.family == 4:
        ip = IP(src=VTEP[4], dst=host.address, tos=tos, id=0, flags="DF", ttl=64)
    else:
        ip = IPv6(src=VTEP[6], dst=host.address, tc=tos, hlim=64, fl=hashed & 0xFFFFF)
    return (
        Ether(src=host.gateway_mac, dst=host.mac)
        / ip
        / UDP(sport=49152 + (hashed & 0x3FFF), dport=VXLAN_PORT, chksum=0)
        / VXLAN(flags=0x08, vni=receiver.vni)
        / Ether(src=GATEWAY_MAC, dst=receiver.mac, type=0x0800 if tenant.version == 4 else 0x86DD)
        / Raw(bytes(tenant))
    )


__all__ = [
    "ICMP", "IP", "UDP", "Ether", "IPv6", "IPv6ExtHdrFragment", "Raw", "VXLAN",
    "congestion", "echo", "expected", "inner_frame", "inner_ip", "outer",
]
