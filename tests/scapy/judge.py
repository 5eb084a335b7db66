"""Compares the gateway's frames with the expected ones, and reports the differences."""

from scapy.all import IP, TCP, UDP, Ether, ICMP, IPv6, Raw
from scapy.layers.inet6 import IPv6ExtHdrFragment
from scapy.layers.vxlan import VXLAN


class Verdict:
    """Counts of comparisons, and list of differences."""

    def __init__(self):
        self.sent = 0
        self.packets = 0
        self.fields = 0
        self.checksums = 0
        self.reasons = 0
        self.wrong = []

    def fail(self, where, what):
        self.wrong.append(f"{where}: {what}")

    def same(self, where, name, got, wanted):
        self.fields += 1
        if got != wanted:
            self.fail(where, f"{name} is {got!r}, expected {wanted!r}")

    def frame(self, where, got, wanted):
        """Compares all bytes, field by field, so that a difference has a name."""
        self.packets += 1
        wanted = bytes(wanted)
        left, right = Ether(got), Ether(wanted)
        before = len(self.wrong)
        self.same(where, "length", len(got), len(wanted))
        while left or right:
            if type(left) is not type(right):
                self.fail(where, f"a header is {left.name}, expected {right.name}")
                break
            for field in left.fields_desc:
                name = f"{left.name}.{field.name}"
                self.same(where, name, left.getfieldval(field.name), right.getfieldval(field.name))
            left, right = left.payload, right.payload
        if got != wanted and len(self.wrong) == before:
            self.fail(where, f"bytes are {got.hex()}, expected {wanted.hex()}")
        self.integrity(where, got)

    def integrity(self, where, got):
        """Compares the frame's own lengths and IPv4 checksums with scapy's, independently of the expected frame."""
        frame = Ether(got)
        underlay, tunnel = frame.payload, frame.getlayer(VXLAN)
        if tunnel is None:
            return
        for header in (underlay, tunnel.payload.payload):
            if not isinstance(header, IP):
                continue
            again = header.copy()
            del again.chksum
            self.checksums += 1
            self.same(where, "IP.chksum computed again", header.chksum, IP(bytes(again)).chksum)
        # Padding of the Ethernet frame may follow the packet.
        behind_ip = underlay.len - 20 if isinstance(underlay, IP) else underlay.plen
        self.same(where, "UDP.len computed again", frame[UDP].len, behind_ip)
        self.same(where, "the frame holds the whole packet", behind_ip <= len(bytes(underlay.payload)), True)
        tenant = tunnel.payload.payload
        # Layer 4 of an unfragmented packet: its checksum covers the addresses, which must be unchanged.
        for layer in (TCP, UDP, ICMP):
            segment = tenant.getlayer(layer) if isinstance(tenant, (IP, IPv6)) else None
            if segment is None or tenant.haslayer(IPv6ExtHdrFragment):
                continue
            if isinstance(tenant, IP) and (tenant.frag or tenant.flags.MF):
                continue
            if layer is UDP and segment.chksum == 0:
                continue  # sent without a checksum
            if tenant.haslayer(Raw) and tenant[Raw].load.startswith(b"!"):
                continue  # intentionally sent with a wrong checksum
            again = tenant.copy()
            del again[layer].chksum
            self.checksums += 1
            self.same(where, f"{layer.__name__}.chksum computed again", segment.chksum, type(tenant)(bytes(again))[layer].chksum)
