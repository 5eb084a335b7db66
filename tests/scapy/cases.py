"""Families of packets for the gateway, each with its expected outcome.

A case is (name, input port, bytes, fate). A fate is ("forward", port, bytes), ("cpu", reason) or ("drop", reason).
"""

from itertools import product

from scapy.all import ARP, SCTP, TCP, Dot1Q, GRE, IPOption_NOP, IPOption_RR, PadN
from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting

from lab import (
    BLUE_A, BLUE_B, DATA_CENTRE, DENIED_PORT, GREEN_A, GREEN_B, MTU, RED_A, RED_B, RED_C, VTEP, pairs,
)
from packets import (
    ICMP, IP, UDP, Ether, IPv6, IPv6ExtHdrFragment, Raw, VXLAN, congestion, echo, expected, inner_frame, inner_ip, outer,
)

FAMILIES = (4, 6)


def forward(name, sender, receiver, frame, trailer=b""):
    """Returns a case of a packet that must arrive, without the trailer."""
    fate = ("forward", receiver.host.port, bytes(expected(frame, receiver)))
    return name, sender.host.port, bytes(frame) + trailer, fate


def drop(name, sender, frame, reason):
    return name, sender.host.port, bytes(frame), ("drop", reason)


def cpu(name, sender, frame, reason):
    return name, sender.host.port, bytes(frame), ("cpu", reason)


def segments(family):
    """Returns layer 4 of every protocol, parsed by the gateway or not."""
    return {
        "udp": UDP(sport=1000, dport=53) / Raw(b"question"),
        "udp, empty": UDP(sport=65535, dport=1),
        "tcp": TCP(sport=1000, dport=443, flags="PA", seq=5) / Raw(b"x" * 100),
        "tcp syn": TCP(sport=1024, dport=80, flags="S", options=[("MSS", 1460), ("SAckOK", b"")]),
        "echo": echo(family) / Raw(b"abcdefgh" * 4),
        "sctp": SCTP(sport=7, dport=8, tag=9) / Raw(b"chunk"),
        "gre": GRE() / Raw(b"inside"),
        "unknown protocol": Raw(b"\xff" * 30),
    }


def tunnelled(sender, receiver, family, segment, **fields):
    change = fields.pop("outer", {})
    if isinstance(segment, Raw) and "proto" not in fields and "nh" not in fields:
        fields["proto" if family == 4 else "nh"] = 253
    packet = inner_ip(sender, receiver, family, **fields) / segment
    return outer(sender, inner_frame(sender, packet), **change)


def matrix():
    """All allowed pairs, in both families, with every protocol: all combinations of underlay and overlay."""
    for (a, b), family in product(pairs(), FAMILIES):
        if a.address(family) is None or b.address(family) is None:
            continue
        for kind, segment in segments(family).items():
            name = f"{a.name} to {b.name}, IPv{family}, {kind}"
            yield forward(name, a, b, tunnelled(a, b, family, segment))


def sizes():
    """Odd and even lengths, and the port's MTU."""
    for a, b in ((RED_A, RED_B), (RED_A, RED_C), (RED_C, RED_A)):
        for family, length in product(FAMILIES, (0, 1, 2, 3, 17, 64, 777, 1400)):
            frame = tunnelled(a, b, family, UDP(sport=5, dport=6) / Raw(b"\xab" * length))
            yield forward(f"{length} bytes, {a.name} to {b.name}, IPv{family}", a, b, frame)
        # Sent IP packet: outer IP 20 or 40, UDP 8, VXLAN 8, Ethernet 14, inner IP 20, UDP 8.
        largest = MTU - (20 if b.host.family == 4 else 40) - 8 - 8 - 14 - 20 - 8
        fits = tunnelled(a, b, 4, UDP(sport=5, dport=6) / Raw(b"\xcd" * largest))
        yield forward(f"largest, {a.name} to {b.name}", a, b, fits)
        too_long = tunnelled(a, b, 4, UDP(sport=5, dport=6) / Raw(b"\xcd" * (largest + 1)))
        yield drop(f"one byte too long, {a.name} to {b.name}", a, too_long, "exceeds_mtu")


def padding():
    """Bytes after the inner packet are kept, bytes after the outer one are removed."""
    for a, b in ((RED_A, RED_B), (RED_C, RED_A)):
        frame = tunnelled(a, b, 4, UDP(sport=5, dport=6) / Raw(b"data"))
        for length in (1, 4, 9, 500):
            yield forward(f"{length} bytes behind the packet from {a.name}", a, b, frame, trailer=b"\xbb" * length)
        short = inner_ip(a, b, 4, len=28 + 4, proto=17) / UDP(sport=5, dport=6, len=12, chksum=0) / Raw(b"!ata" + b"\x11" * 7)
        yield forward(f"padding inside, from {a.name}", a, b, outer(a, inner_frame(a, short)))


def congestion_and_service():
    """All combinations of RFC 6040, figure 4, with different DSCP in both headers, in all four combinations of families."""
    for (a, b), family in product(((RED_A, RED_B), (RED_C, RED_A), (RED_A, RED_C)), FAMILIES):
        for outer_ecn, inner_ecn in product(range(4), range(4)):
            name = f"ECN {outer_ecn} around {inner_ecn}, {a.name} to {b.name}, IPv{family}"
            tos = {"tos": 10 << 2 | inner_ecn, "outer": {"tos": 46 << 2 | outer_ecn}}
            frame = tunnelled(a, b, family, UDP(sport=1, dport=2), **tos)
            if congestion(outer_ecn, inner_ecn) is None:
                yield drop(name, a, frame, "ecn_ce_on_not_ect")
            else:
                yield forward(name, a, b, frame)
        for dscp in (0, 1, 32, 63):
            tos = {"tos": (63 - dscp) << 2, "outer": {"tos": dscp << 2}}
            frame = tunnelled(a, b, family, UDP(sport=1, dport=2), **tos)
            yield forward(f"DSCP {dscp}, {a.name} to {b.name}, IPv{family}", a, b, frame)


def hops():
    """Between subnets the gateway is a router, a subnet is one link; the tunnel's own TTL is ignored."""
    for family, ttl, to in product(FAMILIES, (0, 1, 2, 3, 64, 128, 255), (RED_B, RED_C, GREEN_A)):
        frame = tunnelled(RED_A, to, family, UDP(sport=1, dport=2), ttl=ttl)
        name = f"TTL {ttl} to {to.name}, IPv{family}"
        least = 1 if to is RED_B or (to is RED_C and family == 6) else 2
        yield drop(name, RED_A, frame, "inner_ttl_expired") if ttl < least else forward(name, RED_A, to, frame)
    for ttl in (0, 1, 2):
        frame, name = tunnelled(RED_A, "8.8.8.8", 4, UDP(sport=1, dport=2), ttl=ttl), f"TTL {ttl} to the Internet"
        yield drop(name, RED_A, frame, "inner_ttl_expired") if ttl < 2 else cpu(name, RED_A, frame, "internet")
    for ttl in (0, 1, 255):
        frame = tunnelled(RED_A, RED_B, 4, UDP(sport=1, dport=2), outer={"ip": {"ttl": ttl}})
        yield forward(f"outer TTL {ttl}", RED_A, RED_B, frame)
        frame = tunnelled(RED_C, RED_B, 4, UDP(sport=1, dport=2), outer={"ip": {"hlim": ttl}})
        yield forward(f"outer hop limit {ttl}", RED_C, RED_B, frame)


def fragments():
    """Fragments of tenants' packets pass, and all of one datagram take one path."""
    for a, b in ((RED_A, RED_B), (RED_A, RED_C)):
        for flags, offset, content in (("MF", 0, bytes(UDP(sport=3, dport=4, len=100)) + b"a" * 40), ("MF", 6, b"b" * 48), (0, 12, b"c")):
            frame = tunnelled(a, b, 4, Raw(content), flags=flags, frag=offset, proto=17, id=99)
            yield forward(f"fragment at {offset}, {a.name} to {b.name}, IPv4", a, b, frame)
        for more, offset in ((1, 0), (1, 6), (0, 12)):
            header = IPv6ExtHdrFragment(nh=17, m=more, offset=offset, id=99)
            frame = tunnelled(a, b, 6, header / Raw(b"\x00\x03\x00\x04" + b"d" * 44), nh=44)
            yield forward(f"fragment at {offset}, {a.name} to {b.name}, IPv6", a, b, frame)
    # A denied datagram: its first fragment is dropped; later ones pass without ports, and are useless alone.
    first = tunnelled(RED_A, RED_B, 4, TCP(sport=9, dport=DENIED_PORT), flags="MF")
    yield drop("first fragment to the denied port", RED_A, first, "acl_denied_in")
    later = tunnelled(RED_A, RED_B, 4, Raw(b"\x00\x09\x09\x13" * 5), proto=6, frag=5)
    yield forward("later fragment of a denied datagram", RED_A, RED_B, later)


def flags_and_reserved():
    """Only the I flag matters on receipt (RFC 7348, section 5); sent packets have no other flag set."""
    good = bytes(tunnelled(RED_A, RED_B, 4, UDP(sport=1, dport=2)))
    at = 14 + 20 + 8
    wanted = expected(Ether(good), RED_B)
    for flags in range(0, 256, 5):
        sent = good[:at] + bytes([flags]) + good[at + 1:]
        name = f"VXLAN flags {flags:#04x}"
        if flags & 8:
            yield name, 1, sent, ("forward", 2, bytes(wanted))
        else:
            yield name, 1, sent, ("drop", "vxlan_flag_i_clear")
    for offset in (1, 2, 3, 7):
        sent = good[:at + offset] + b"\xff" + good[at + offset + 1:]
        yield f"VXLAN reserved byte {offset}", 1, sent, ("forward", 2, bytes(wanted))


def tenants():
    """Decisions by the region: known senders, allowed destinations, packets for the control plane."""
    udp = UDP(sport=1, dport=2)
    for vni in (0, 1, 99, 101, 999, 0x000064 << 8, 0xFFFFFF):
        yield drop(f"VNI {vni}", RED_A, tunnelled(RED_A, RED_B, 4, udp, outer={"vni": vni}), "unknown_vni")
    for a, to in ((BLUE_A, "10.3.0.11"), (BLUE_A, "172.16.7.9"), (BLUE_B, "198.18.0.1"), (GREEN_A, "10.9.3.3"), (GREEN_B, "10.4.0.1")):
        yield drop(f"{a.name} to {to}", a, tunnelled(a, to, 4, udp), "no_route")
    for a, to in ((BLUE_A, "fd00:300::11"), (RED_A, "2001:db8:ffff::1"), (GREEN_B, "fd00:200::1")):
        yield drop(f"{a.name} to {to}", a, tunnelled(a, to, 6, udp), "no_route")
    for a, to in ((RED_A, "10.0.0.99"), (RED_A, "10.3.0.99"), (BLUE_A, "10.0.0.13"), (GREEN_A, "10.0.1.1")):
        yield drop(f"{a.name} to {to}", a, tunnelled(a, to, 4, udp), "unknown_vm")
    yield drop("red-a to fd00:100::99", RED_A, tunnelled(RED_A, "fd00:100::99", 6, udp), "unknown_vm")
    for to in ("10.66.0.0", "10.66.255.255"):
        yield drop(f"red-a to {to}", RED_A, tunnelled(RED_A, to, 4, udp), "blackhole_route")
    for to in ("198.18.0.1", "10.65.255.255", "10.67.0.0"):
        yield cpu(f"red-a to {to}", RED_A, tunnelled(RED_A, to, 4, udp), "internet")


def rules():
    """The only ACL rule of the region: TCP to one port of one VM."""
    tcp = TCP(sport=9, dport=DENIED_PORT)
    for a in (RED_A, RED_C, GREEN_A, GREEN_B, DATA_CENTRE):
        yield drop(f"denied, from {a.name}", a, tunnelled(a, RED_B, 4, tcp), "acl_denied_in")
    yield forward("another VPC, same addresses", BLUE_A, BLUE_B, tunnelled(BLUE_A, BLUE_B, 4, tcp))
    yield forward("another machine", RED_B, RED_A, tunnelled(RED_B, RED_A, 4, tcp))
    yield forward("IPv6", RED_A, RED_B, tunnelled(RED_A, RED_B, 6, tcp))
    yield forward("UDP", RED_A, RED_B, tunnelled(RED_A, RED_B, 4, UDP(sport=9, dport=DENIED_PORT)))
    yield forward("from that port", RED_A, RED_B, tunnelled(RED_A, RED_B, 4, TCP(sport=DENIED_PORT, dport=9)))
    for port in (DENIED_PORT - 1, DENIED_PORT + 1, DENIED_PORT | 0x8000):
        yield forward(f"port {port}", RED_A, RED_B, tunnelled(RED_A, RED_B, 4, TCP(sport=9, dport=port)))


def not_tunnelled():
    """Packets of the underlay to the gateway itself, and invalid ones."""
    mac = {"src": RED_A.host.mac, "dst": RED_A.host.gateway_mac}
    v4, v6 = VTEP[4], VTEP[6]
    one_hop = {"hlim": 255}
    punted = {
        "arp": {"ARP": Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(pdst=v4)},
        "link_protocol": {
            "LLDP": Ether(dst="01:80:c2:00:00:0e", type=0x88CC) / Raw(b"\x02\x07\x04" + b"a" * 40),
            "LACP": Ether(dst="01:80:c2:00:00:02", type=0x8809) / Raw(b"\x01\x01" + b"b" * 60),
            "EAPOL": Ether(dst="01:80:c2:00:00:03", type=0x888E) / Raw(b"\x01\x01" + b"c" * 60),
        },
        "link_local": {
            "OSPF": Ether(**mac) / IP(src="192.0.2.11", dst="224.0.0.5", proto=89, ttl=1) / Raw(b"hello"),
            "to a link-local address": Ether(**mac) / IPv6(src="fe80::1", dst="fe80::2", nh=89) / Raw(b"\x88" + b"\0" * 23),
        },
        "nd": {
            "solicitation": Ether(**mac) / IPv6(src="fe80::1", dst="ff02::1:ff00:1", nh=58, **one_hop) / Raw(b"\x87" + b"\0" * 23),
            "advertisement": Ether(**mac) / IPv6(src="fe80::1", dst="fe80::2", nh=58, **one_hop) / Raw(b"\x88" + b"\0" * 23),
        },
        "icmp": {
            "ping": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / ICMP(),
            "ping6": Ether(**mac) / IPv6(src="2001:db8::1", dst=v6, nh=58) / Raw(b"\x80" + b"\0" * 7),
        },
        "icmp_error": {
            "too big": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / ICMP(type=3, code=4) / Raw(b"q" * 28),
            "too big, IPv6": Ether(**mac) / IPv6(src="2001:db8::1", dst=v6, nh=58) / Raw(b"\x02" + b"\0" * 47),
        },
        "bgp": {
            "BGP": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / TCP(dport=179),
            "BGP that answers": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / TCP(sport=179, dport=40000),
        },
        "bfd": {
            "BFD": Ether(**mac) / IPv6(src="2001:db8::1", dst=v6, **one_hop) / UDP(dport=3784) / Raw(b"\x20" * 24),
            "BFD over several hops": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / UDP(dport=4784) / Raw(b"\x20" * 24),
        },
        "dhcp": {"DHCP": Ether(dst="ff:ff:ff:ff:ff:ff") / IP(src="192.0.2.11", dst="255.255.255.255") / UDP(sport=67, dport=68)},
        "gateway_address": {
            "not VXLAN's port": Ether(**mac) / IP(src="192.0.2.11", dst=v4) / UDP(dport=4790) / Raw(b"\x08" * 60),
            "forwarded BFD": Ether(**mac) / IP(src="192.0.2.11", dst=v4, ttl=254) / UDP(dport=3784) / Raw(b"\x20" * 24),
        },
    }
    for hops in (1, 64, 254):
        frame = Ether(**mac) / IPv6(src="fe80::1", dst="ff02::1:ff00:1", nh=58, hlim=hops) / Raw(b"\x87" + b"\0" * 23)
        yield drop(f"neighbour discovery with hop limit {hops}", RED_A, frame, "nd_hop_limit")
    frame = Ether(src=RED_A.host.mac, dst="02:00:00:99:99:99") / ARP(pdst=v4)
    yield drop("ARP to another MAC", RED_A, frame, "underlay_other_mac")
    for reason, frames in punted.items():
        for name, frame in frames.items():
            yield cpu(name, RED_A, frame, reason)
    inside = VXLAN(flags=8, vni=100) / inner_frame(RED_A, inner_ip(RED_A, RED_B, 4) / UDP())
    for to in ("192.0.2.2", "10.0.0.12"):
        frame = Ether(**mac) / IP(src="192.0.2.11", dst=to) / UDP(sport=1, dport=4789) / inside
        yield drop(f"for {to}", RED_A, frame, "not_for_gateway")
    yield drop("for 2001:db8::9", RED_A, Ether(**mac) / IPv6(src=v6, dst="2001:db8::9") / UDP(dport=4789) / inside, "not_for_gateway")
    for ether_type in (0x0000, 0x0806 + 1, 0x8100, 0x8847, 0xFFFF):
        reason = "underlay_other_vlan" if ether_type == 0x8100 else "underlay_not_ip"
        yield drop(f"EtherType {ether_type:#06x}", RED_A, Ether(**mac, type=ether_type) / Raw(b"\x45" * 64), reason)


def wrong_underlay():
    """Outer headers that contradict themselves."""
    def send(**change):
        return tunnelled(RED_A, RED_B, 4, UDP(sport=1, dport=2) / Raw(b"data"), outer=change)

    def send6(**change):
        return tunnelled(RED_C, RED_B, 4, UDP(sport=1, dport=2) / Raw(b"data"), outer=change)

    for version in (0, 5, 6, 15):
        yield drop(f"IPv4 with version {version}", RED_A, send(ip={"version": version}), "underlay_ipv4_header")
    for version in (0, 4, 5, 7):
        yield drop(f"IPv6 with version {version}", RED_C, send6(ip={"version": version}), "underlay_ipv6_header")
    for words in range(5):
        yield drop(f"IHL {words}", RED_A, send(ip={"ihl": words}), "underlay_ipv4_header")
    for length in (0, 1, 19):
        yield drop(f"total length {length}", RED_A, send(ip={"len": length}), "underlay_ipv4_header")
    right = IP(bytes(send()[IP])).chksum
    for wrong in (right ^ 1, right ^ 0x8000, 0 if right else 1, right ^ 0xFFFF):
        yield drop(f"IPv4 checksum {wrong:#06x}", RED_A, send(ip={"chksum": wrong}), "underlay_ipv4_checksum")
    options = IP(src="192.0.2.11", dst=VTEP[4], options=b"\x01\x01\x01\x00")
    payload = bytes(send()[UDP])
    yield drop("IPv4 options", RED_A, Ether(src="02:00:00:01:00:02", dst="02:00:00:01:00:01") / options / UDP(payload), "underlay_ipv4_options")
    for flags, offset in (("MF", 0), ("MF", 5), (0, 5)):
        yield drop(f"outer fragment {flags} {offset}", RED_A, send(ip={"flags": flags, "frag": offset, "proto": 17}), "underlay_fragment")
    v6 = Ether(src="02:00:00:03:00:02", dst="02:00:00:03:00:01") / IPv6(src="2001:db8:0:1::13", dst=VTEP[6])
    yield drop("outer IPv6 fragment", RED_C, v6 / IPv6ExtHdrFragment(nh=17) / UDP(payload), "underlay_fragment")
    length = len(payload)
    for wrong in (0, 7, length - 1, length + 1, 0xFFFF):
        yield drop(f"UDP length {wrong}", RED_A, send(udp={"len": wrong}), "underlay_udp_length")
        yield drop(f"UDP length {wrong} over IPv6", RED_C, send6(udp={"len": wrong}), "underlay_udp_length")
    # RFC 7348, section 5; RFC 6935: a receiver may ignore it.
    for checksum in (0, 1, 0xFFFF):
        yield forward(f"UDP checksum {checksum}", RED_A, RED_B, send(udp={"chksum": checksum}))
        yield forward(f"UDP checksum {checksum} over IPv6", RED_C, RED_B, send6(udp={"chksum": checksum}))


def wrong_inside():
    """Tenants' packets that contradict themselves, or are not IP packets."""
    udp = UDP(sport=1, dport=2, chksum=0) / Raw(b"!ata")

    def inside(packet, **ether):
        return outer(RED_A, inner_frame(RED_A, packet, **ether))

    def v4(**fields):
        return inside(inner_ip(RED_A, RED_B, 4, **fields) / udp, type=0x0800)

    def v6(**fields):
        return inside(inner_ip(RED_A, RED_B, 6, **fields) / udp, type=0x86DD)

    yield drop("ARP inside", RED_A, inside(ARP(pdst="10.0.0.12")), "inner_not_ip")
    yield drop("unknown EtherType inside", RED_A, inside(Raw(b"x" * 60), type=0x9999), "inner_not_ip")
    tagged = Dot1Q(vlan=7) / inner_ip(RED_A, RED_B, 4) / udp
    yield drop("802.1Q inside", RED_A, inside(tagged), "inner_vlan_tag")
    yield drop("802.1ad inside", RED_A, inside(tagged, type=0x88A8), "inner_vlan_tag")
    for version in (0, 5, 6):
        yield drop(f"inner IPv4 with version {version}", RED_A, v4(version=version), "inner_ipv4_header")
    for version in (0, 4, 5):
        yield drop(f"inner IPv6 with version {version}", RED_A, v6(version=version), "inner_ipv6_header")
    for words in range(5):
        yield drop(f"inner IHL {words}", RED_A, v4(ihl=words), "inner_ipv4_header")
    right = IP(bytes(v4()[VXLAN].payload.payload)).chksum
    for wrong in (right ^ 1, right ^ 0x100, right ^ 0xFFFF):
        yield drop(f"inner IPv4 checksum {wrong:#06x}", RED_A, v4(chksum=wrong), "inner_ipv4_checksum")
    for length in (0, 19):
        yield drop(f"inner total length {length}", RED_A, v4(len=length), "inner_length")
    for length in (20, 21, 23):
        yield drop(f"inner total length {length}", RED_A, v4(len=length), "inner_length")
        yield drop(f"inner payload length {length - 20}", RED_A, v6(plen=length - 20), "inner_length")
    for length in (33, 34, 1500, 0xFFFF):
        yield drop(f"inner total length {length}", RED_A, v4(len=length), "inner_truncated")
        yield drop(f"inner payload length {length - 20}", RED_A, v6(plen=length - 20), "inner_truncated")
    for header, reason in (
        (IPv6ExtHdrRouting(), "inner_source_route"),
        (IPv6ExtHdrDestOpt() / IPv6ExtHdrHopByHop(), "inner_ipv6_extension"),
        (IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 68)]), "inner_headers_too_long"),
    ):
        yield drop(reason, RED_A, inside(inner_ip(RED_A, RED_B, 6) / header / udp), reason)
    for address in ("0.0.0.1", "127.0.0.1", "169.254.0.0", "169.254.169.254", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"):
        yield drop(f"to {address}", RED_A, v4(dst=address), "inner_address")
        yield drop(f"from {address}", RED_A, v4(src=address), "inner_address")
    for address in ("::", "::1", "::10.0.0.11", "::ffff:10.0.0.11", "fe80::1", "febf::1", "ff02::1", "ff0e::1"):
        yield drop(f"to {address}", RED_A, v6(dst=address), "inner_address")
        yield drop(f"from {address}", RED_A, v6(src=address), "inner_address")


def links():
    """MAC addresses of frames, outer and inner."""
    udp = UDP(sport=1, dport=2)
    groups = ("ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:05", "33:33:00:00:00:01")
    for a, b, family in ((RED_A, RED_B, 4), (RED_A, RED_B, 6), (RED_C, RED_A, 4)):
        for to in (*groups, "02:00:00:99:99:99", b.host.gateway_mac):
            frame = tunnelled(a, b, family, udp)
            frame[Ether].dst = to
            yield drop(f"outer frame to {to}", a, frame, "underlay_other_mac")
        for to in (*groups, "02:00:00:99:99:99", a.mac):
            frame = tunnelled(a, b, family, udp)
            frame[VXLAN].payload.dst = to
            yield drop(f"inner frame to {to}", a, frame, "inner_other_mac")
        for source in groups:
            frame = tunnelled(a, b, family, udp)
            frame[VXLAN].payload.src = source
            yield drop(f"inner frame from {source}", a, frame, "inner_source_mac")
    # To the other VM's own MAC: only within a subnet.
    for to, family in product((RED_B, RED_C, GREEN_A, DATA_CENTRE), FAMILIES):
        if to.address(family) is None:
            continue
        frame = tunnelled(RED_A, to, family, udp)
        frame[VXLAN].payload.dst = to.mac
        name = f"to {to.name} itself, IPv{family}"
        alike = to is RED_B or (to is RED_C and family == 6)
        yield forward(name, RED_A, to, frame) if alike else drop(name, RED_A, frame, "inner_other_mac")
    frame = tunnelled(RED_A, "198.18.0.1", 4, udp)
    frame[VXLAN].payload.dst = "ff:ff:ff:ff:ff:ff"
    yield drop("to the Internet, to all", RED_A, frame, "inner_other_mac")


def sources():
    """VXLAN is accepted only from servers and remotes."""
    for source in ("192.0.2.10", "192.0.2.13", "10.0.0.11", "192.0.2.1", "198.51.100.11"):
        frame = tunnelled(RED_A, RED_B, 4, UDP(), outer={"ip": {"src": source}})
        yield drop(f"from {source}", RED_A, frame, "unknown_source")
    frame = tunnelled(RED_C, RED_A, 4, UDP(), outer={"ip": {"src": "2001:db8:0:1::14"}})
    yield drop("from 2001:db8:0:1::14", RED_C, frame, "unknown_source")


def between():
    """Options and extension headers: packets pass, and their ports are used."""
    def pad(length):
        return [PadN(optdata=b"\0" * length)]

    def auth(protocol):
        return Raw(bytes([protocol, 4, 0, 0]) + bytes(20))

    kinds = {
        "hop-by-hop options": IPv6ExtHdrHopByHop(options=pad(4)),
        "destination options": IPv6ExtHdrDestOpt(options=pad(12)),
        "both": IPv6ExtHdrHopByHop(options=pad(4)) / IPv6ExtHdrDestOpt(options=pad(20)),
        "segment routing": IPv6ExtHdrRouting(type=4, addresses=["2001:db8::7"]),
        "64 bytes": IPv6ExtHdrHopByHop(options=pad(28)) / IPv6ExtHdrDestOpt(options=pad(28)),
    }
    for (name, headers), segment in product(kinds.items(), (UDP(sport=5, dport=6), TCP(sport=5, dport=6), echo(6))):
        frame = tunnelled(RED_A, RED_C, 6, headers / segment / Raw(b"data"))
        yield forward(f"{name}, {segment.name}", RED_A, RED_C, frame)
    yield forward("authentication, IPv6", RED_A, RED_B, tunnelled(RED_A, RED_B, 6, auth(6) / TCP(sport=5, dport=6), nh=51))
    yield forward("authentication, IPv4", RED_A, RED_B, tunnelled(RED_A, RED_B, 4, auth(6) / TCP(sport=5, dport=6), proto=51))
    yield forward("ESP", RED_A, RED_B, tunnelled(RED_A, RED_B, 6, Raw(bytes(40)), nh=50))
    yield forward("no next header", RED_A, RED_B, tunnelled(RED_A, RED_B, 6, Raw(b""), nh=59))
    nothing = IPv6ExtHdrFragment(nh=59, m=0, offset=0, id=3)
    yield forward("no next header in a fragment", RED_A, RED_B, tunnelled(RED_A, RED_B, 6, nothing))
    for a, b in ((RED_A, RED_B), (RED_A, RED_C), (RED_C, RED_A)):
        for options in ([IPOption_NOP()] * 4, [IPOption_NOP()] * 40, [IPOption_RR(routers=["0.0.0.0"] * 3)]):
            for segment in (UDP(sport=5, dport=6), echo(4)):
                frame = tunnelled(a, b, 4, segment / Raw(b"data"), options=options)
                yield forward(f"{len(options)} options, {a.name} to {b.name}", a, b, frame)
    # The region's rule is for IPv4.
    hidden = TCP(sport=9, dport=DENIED_PORT)
    yield drop("options, denied port", RED_A, tunnelled(RED_A, RED_B, 4, hidden, options=[IPOption_NOP()] * 4), "acl_denied_in")
    yield drop("authentication, denied port", RED_A, tunnelled(RED_A, RED_B, 4, auth(6) / hidden, proto=51), "acl_denied_in")


def cut_frames():
    """A valid frame truncated at every length: the outer headers' lengths exceed the frame."""
    for sender, family in product((RED_A, RED_C), FAMILIES):
        whole = bytes(tunnelled(sender, RED_B, family, UDP(sport=1, dport=2) / Raw(b"data")))
        for length in range(1, len(whole)):
            name = f"cut to {length} of {len(whole)} bytes, {sender.name}, IPv{family}"
            yield name, sender.host.port, whole[:length], ("drop", "underlay_truncated")


def cut_inside():
    """The tunnel's content truncated at every length, with matching outer headers."""
    for sender, family in product((RED_A, RED_C), FAMILIES):
        tenant = inner_ip(sender, RED_B, family) / UDP(sport=1, dport=2) / Raw(b"data")
        whole = bytes(VXLAN(flags=8, vni=100) / inner_frame(sender, tenant))
        for length in range(len(whole)):
            frame = outer(sender, Raw())
            frame[UDP].remove_payload()
            frame = frame / Raw(whole[:length])
            reason = "underlay_truncated" if length < 8 else "inner_truncated"
            yield drop(f"{length} bytes in the tunnel, {sender.name}, IPv{family}", sender, frame, reason)
    # Layer 4 truncated, with matching lengths: four bytes are enough for the ports.
    for family, length in product(FAMILIES, range(9)):
        content = bytes(UDP(sport=1, dport=2, len=8, chksum=0))[:length]
        field = {"proto": 17} if family == 4 else {"nh": 17}
        frame = tunnelled(RED_A, RED_B, family, Raw(content), **field)
        name = f"{length} bytes of UDP, IPv{family}"
        yield drop(name, RED_A, frame, "inner_length") if length < 4 else forward(name, RED_A, RED_B, frame)


FAMILIES_OF_CASES = [
    matrix, sizes, padding, congestion_and_service, hops, fragments, flags_and_reserved, tenants, rules, not_tunnelled,
    wrong_underlay, wrong_inside, links, sources, between, cut_frames, cut_inside,
]
