//! Finds the innermost TCP or UDP header of a packet, within a VXLAN tunnel (RFC 7348) or not.

/// Length of an Ethernet header without a VLAN tag, in bytes.
const ETHERNET: usize = 14;
/// Length of a VLAN tag, in bytes.
const VLAN: usize = 4;
/// Maximum number of VLAN tags of an Ethernet header.
const MAX_TAGS: usize = 2;
/// Maximum number of IPv6 extension headers.
const MAX_EXTENSIONS: usize = 4;
/// Length of an IPv6 header, in bytes.
const IPV6: usize = 40;
/// Length of a UDP header, in bytes.
pub(crate) const UDP: usize = 8;
/// Length of a VXLAN header, in bytes.
const VXLAN: usize = 8;
/// The UDP port of VXLAN.
const VXLAN_PORT: u16 = 4789;

/// A transport protocol with a checksum over a pseudo-header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Returns the protocol number of IP.
    pub(crate) fn number(self) -> u8 {
        match self {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        }
    }

    /// Returns the offset of the checksum field within the header, in bytes.
    pub(crate) fn checksum_offset(self) -> usize {
        match self {
            Transport::Tcp => 16,
            Transport::Udp => 6,
        }
    }
}

/// An IP header and the TCP or UDP header behind it. Offsets are in bytes from the packet's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpTransport {
    /// Offset of the IP header.
    pub(crate) network: usize,
    pub(crate) is_ipv6: bool,
    /// Offset of the TCP or UDP header.
    pub(crate) transport: usize,
    pub(crate) protocol: Transport,
    /// Offset of the first byte of payload.
    pub(crate) payload: usize,
    /// End of the IP packet by its own length field.
    pub(crate) end: usize,
}

/// The headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    /// The tunnel's IP and UDP header, if the packet is in a VXLAN tunnel.
    pub(crate) tunnel: Option<IpTransport>,
    /// The innermost IP and transport header.
    pub(crate) inner: IpTransport,
}

impl Headers {
    /// Finds the headers of a packet. `None` if its innermost protocol is neither TCP nor UDP, a
    /// fragment, or not complete.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Headers> {
        let outer = IpTransport::parse(bytes, 0)?;
        match outer.find_tunnelled(bytes) {
            Some(inner) => Some(Headers { tunnel: Some(outer), inner }),
            None => Some(Headers { tunnel: None, inner: outer }),
        }
    }
}

impl IpTransport {
    /// Finds the IP and transport header of the Ethernet frame that starts at byte `frame`. `None`
    /// if it is not TCP or UDP over IP, is a fragment, or if a header or the packet is not
    /// complete.
    fn parse(bytes: &[u8], frame: usize) -> Option<IpTransport> {
        let mut network = frame + ETHERNET;
        let mut ethertype = read_u16(bytes, network - 2)?;
        for _ in 0..MAX_TAGS {
            if matches!(ethertype, 0x8100 | 0x88a8) {
                network += VLAN;
                ethertype = read_u16(bytes, network - 2)?;
            }
        }
        let (is_ipv6, protocol_number, transport, end) = match ethertype {
            0x0800 => ipv4(bytes, network)?,
            0x86dd => ipv6(bytes, network)?,
            _ => return None,
        };
        let (protocol, header_len) = match protocol_number {
            // The data offset of TCP counts words of four bytes.
            6 => (Transport::Tcp, usize::from(*bytes.get(transport + 12)? >> 4) * 4),
            17 => (Transport::Udp, UDP),
            _ => return None,
        };
        let payload = transport + header_len;
        let min_header_len = if protocol == Transport::Tcp { 20 } else { UDP };
        let is_complete = header_len >= min_header_len && payload <= end && end <= bytes.len();
        is_complete.then_some(IpTransport { network, is_ipv6, transport, protocol, payload, end })
    }

    /// Returns the headers of the frame in this VXLAN tunnel, if it is one.
    fn find_tunnelled(&self, bytes: &[u8]) -> Option<IpTransport> {
        let is_vxlan = self.protocol == Transport::Udp && read_u16(bytes, self.transport + 2)? == VXLAN_PORT;
        if !is_vxlan || bytes.get(self.payload)? & 0x08 == 0 {
            return None;
        }
        IpTransport::parse(bytes, self.payload + VXLAN).filter(|inner| inner.end <= self.end)
    }

    /// Reports whether this is a UDP header to the port of VXLAN.
    pub(crate) fn is_vxlan(&self, bytes: &[u8]) -> bool {
        self.protocol == Transport::Udp && read_u16(bytes, self.transport + 2) == Some(VXLAN_PORT)
    }

    /// Returns the offset of the transport checksum.
    pub(crate) fn checksum_at(&self) -> usize {
        self.transport + self.protocol.checksum_offset()
    }
}

/// Reads the IPv4 header at byte `at`. Returns whether it is IPv6 (`false`), the protocol number,
/// and the offsets of the transport header and of the packet's end. `None` if it is a fragment,
/// which has only a part of the transport payload, or not valid.
fn ipv4(bytes: &[u8], at: usize) -> Option<(bool, u8, usize, usize)> {
    let header = bytes.get(at..at + 20)?;
    let header_len = usize::from(header[0] & 15) * 4;
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_valid = header[0] >> 4 == 4 && header_len >= 20 && total_len >= header_len && !is_fragment;
    is_valid.then_some((false, header[9], at + header_len, at + total_len))
}

/// Reads the IPv6 header at byte `at` and skips its extension headers. Returns whether it is IPv6
/// (`true`), the protocol number, and the offsets of the transport header and of the packet's end.
/// A fragment has the number of the fragment header, which is no transport protocol.
fn ipv6(bytes: &[u8], at: usize) -> Option<(bool, u8, usize, usize)> {
    let header = bytes.get(at..at + IPV6)?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let end = at + IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (mut next_header, mut transport) = (header[6], at + IPV6);
    for _ in 0..MAX_EXTENSIONS {
        // Hop-by-hop options, routing, destination options (RFC 8200, section 4).
        if !matches!(next_header, 0 | 43 | 60) {
            break;
        }
        let extension = bytes.get(transport..transport + 2)?;
        next_header = extension[0];
        transport += 8 + usize::from(extension[1]) * 8;
    }
    Some((true, next_header, transport, end))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
