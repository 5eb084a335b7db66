//! Messages of rtnetlink(7): those about neighbours, next hop objects and routes.
//!
//! Only attributes that decide about paths are read; unknown ones are skipped, because newer
//! kernels add some. The numbers are those of the kernel's `linux/rtnetlink.h`, `linux/neighbour.h`
//! and `linux/nexthop.h`. All integers are in the machine's byte order, addresses in network order.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Message types.
mod kind {
    pub const DONE: u16 = 3;
    pub const ERROR: u16 = 2;
    pub const NEW_ROUTE: u16 = 24;
    pub const GET_ROUTE: u16 = 26;
    pub const NEW_NEIGHBOUR: u16 = 28;
    pub const DELETE_NEIGHBOUR: u16 = 29;
    pub const GET_NEIGHBOUR: u16 = 30;
    pub const NEW_NEXT_HOP: u16 = 104;
    pub const GET_NEXT_HOP: u16 = 106;
}

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Length of `struct rtmsg` and of `struct ndmsg`.
const BODY: usize = 12;
/// Length of `struct nhmsg`.
const NEXT_HOP_BODY: usize = 8;

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelMessage {
    /// A neighbour is there, or has changed.
    Neighbour(Neighbour),
    /// A neighbour is gone: its interface and address.
    NeighbourGone(u32, IpAddr),
    /// A next hop object.
    NextHop(u32, NextHopObject),
    /// A route.
    Route(Route),
    /// The end of a dump.
    Done,
    /// The response to a request: 0, or the number of the error.
    Response(i32),
    /// Another message: links, addresses, deleted routes.
    Other,
}

/// A neighbour of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Index of the interface.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its MAC address; `None` while it is not known or no longer valid.
    pub mac: Option<[u8; 6]>,
    /// Whether an operator has set it, so that the kernel does not ask for it.
    pub is_static: bool,
}

/// A next hop object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextHopObject {
    /// A next hop.
    Single(RouteHop),
    /// Next hop objects with their weights.
    Group(Vec<(u32, u32)>),
    /// Packets are dropped.
    Blackhole,
}

/// A next hop of a route.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RouteHop {
    /// Index of the interface.
    pub interface: u32,
    /// The router; `None`: the destination itself is a neighbour.
    pub gateway: Option<IpAddr>,
    /// Share of the flows, relative to the other next hops of the route.
    pub weight: u32,
}

/// What a route does with packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteAction {
    /// Sends them to one of these next hops.
    Forward(Vec<RouteHop>),
    /// Sends them to a next hop object.
    Object(u32),
    /// Drops them: `blackhole`, `unreachable` or `prohibit`.
    Drop,
    /// Anything else: local, broadcast, multicast.
    Other,
}

/// A route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// Number of the routing table.
    pub table: u32,
    /// Destination.
    pub destination: IpNet,
    /// Of two routes to a destination, the one with the smaller metric counts.
    pub metric: u32,
    /// Longest IP packet that it carries, in bytes (RTAX_MTU); `None`: as its links.
    pub mtu_bytes: Option<u16>,
    /// What it does.
    pub action: RouteAction,
}

/// What a dump contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpKind {
    /// All neighbours.
    Neighbours,
    /// All next hop objects.
    NextHops,
    /// All IPv4 routes.
    RoutesV4,
    /// All IPv6 routes.
    RoutesV6,
}

/// Returns the request for a dump.
pub fn dump_request(kind: DumpKind, sequence: u32) -> Vec<u8> {
    let (kind, family, body) = match kind {
        DumpKind::Neighbours => (kind::GET_NEIGHBOUR, 0, BODY),
        DumpKind::NextHops => (kind::GET_NEXT_HOP, 0, NEXT_HOP_BODY),
        DumpKind::RoutesV4 => (kind::GET_ROUTE, AF_INET, BODY),
        DumpKind::RoutesV6 => (kind::GET_ROUTE, AF_INET6, BODY),
    };
    let mut bytes = vec![0; body];
    bytes[0] = family;
    with_header(kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, &bytes)
}

/// Returns the request that makes the kernel ask a neighbour for its MAC address. `managed`: the
/// kernel repeats that for ever (Linux 5.16); otherwise once.
pub fn resolve_request(interface: u32, address: IpAddr, managed: bool, sequence: u32) -> Vec<u8> {
    const NTF_USE: u8 = 0x01;
    const NTF_EXT_MANAGED: u32 = 0x01;
    const NDA_FLAGS_EXT: u16 = 15;
    let mut bytes = vec![0; BODY];
    bytes[0] = if address.is_ipv4() { AF_INET } else { AF_INET6 };
    bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
    bytes[10] = if managed { 0 } else { NTF_USE };
    match address {
        IpAddr::V4(address) => push_attribute(&mut bytes, NDA_DST, &address.octets()),
        IpAddr::V6(address) => push_attribute(&mut bytes, NDA_DST, &address.octets()),
    }
    if managed {
        push_attribute(&mut bytes, NDA_FLAGS_EXT, &NTF_EXT_MANAGED.to_ne_bytes());
    }
    with_header(kind::NEW_NEIGHBOUR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, sequence, &bytes)
}

const NDA_DST: u16 = 1;

fn with_header(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// Adds an attribute whose value is a multiple of 4 bytes long.
fn push_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
}

/// The messages of one datagram.
#[derive(Clone, Debug)]
pub struct Messages<'a>(&'a [u8]);

/// One message of a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedMessage {
    /// Number of the request that it answers; 0: a notification.
    pub sequence: u32,
    /// The kernel's tables have changed during the dump, so that it may be inconsistent.
    pub is_interrupted: bool,
    /// What it says.
    pub message: KernelMessage,
}

impl<'a> Messages<'a> {
    /// Iterates over the messages of a datagram. Ends at bytes that are no message.
    pub fn of(datagram: &'a [u8]) -> Messages<'a> {
        Messages(datagram)
    }
}

impl Iterator for Messages<'_> {
    type Item = ReceivedMessage;

    fn next(&mut self) -> Option<ReceivedMessage> {
        let len = usize::try_from(read_u32(self.0, 0)?).ok()?;
        let message = self.0.get(..len).filter(|message| message.len() >= HEADER)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        let (kind, flags, sequence) = (read_u16(message, 4)?, read_u16(message, 6)?, read_u32(message, 8)?);
        let is_interrupted = flags & NLM_F_DUMP_INTR != 0;
        let message = parse_message(kind, &message[HEADER..]).unwrap_or(KernelMessage::Other);
        Some(ReceivedMessage { sequence, is_interrupted, message })
    }
}

/// Parses the body of a message. Returns `None` for other kinds of messages, and for a malformed
/// one.
fn parse_message(kind: u16, body: &[u8]) -> Option<KernelMessage> {
    match kind {
        kind::DONE => Some(KernelMessage::Done),
        kind::ERROR => Some(KernelMessage::Response(read_u32(body, 0)?.cast_signed().wrapping_neg())),
        kind::NEW_NEIGHBOUR => parse_neighbour(body).map(KernelMessage::Neighbour),
        kind::DELETE_NEIGHBOUR => {
            parse_neighbour(body).map(|neighbour| KernelMessage::NeighbourGone(neighbour.interface, neighbour.address))
        }
        kind::NEW_NEXT_HOP => parse_next_hop(body).map(|(id, object)| KernelMessage::NextHop(id, object)),
        kind::NEW_ROUTE => parse_route(body).map(KernelMessage::Route),
        _ => None,
    }
}

/// Parses a neighbour of IPv4 or IPv6.
fn parse_neighbour(body: &[u8]) -> Option<Neighbour> {
    const NDA_LLADDR: u16 = 2;
    const NUD_REACHABLE: u16 = 0x02;
    const NUD_STALE: u16 = 0x04;
    const NUD_DELAY: u16 = 0x08;
    const NUD_PROBE: u16 = 0x10;
    const NUD_NOARP: u16 = 0x40;
    const NUD_PERMANENT: u16 = 0x80;
    let (family, interface, state) = (*body.first()?, read_u32(body, 4)?, read_u16(body, 8)?);
    let attributes = body.get(BODY..)?;
    let address = read_address(family, find_attribute(attributes, NDA_DST)?)?;
    let usable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_NOARP | NUD_PERMANENT;
    let mac = find_attribute(attributes, NDA_LLADDR).and_then(|mac| mac.try_into().ok());
    let mac = mac.filter(|_| state & usable != 0);
    Some(Neighbour { interface, address, mac, is_static: state & (NUD_PERMANENT | NUD_NOARP) != 0 })
}

/// Parses a next hop object. Returns its id and content; `None` if the message is malformed.
fn parse_next_hop(body: &[u8]) -> Option<(u32, NextHopObject)> {
    const NHA_ID: u16 = 1;
    const NHA_GROUP: u16 = 2;
    const NHA_BLACKHOLE: u16 = 4;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    /// Length of `struct nexthop_grp`.
    const MEMBER: usize = 8;
    let family = *body.first()?;
    let attributes = body.get(NEXT_HOP_BODY..)?;
    let id = read_u32(find_attribute(attributes, NHA_ID)?, 0)?;
    if find_attribute(attributes, NHA_BLACKHOLE).is_some() {
        return Some((id, NextHopObject::Blackhole));
    }
    if let Some(members) = find_attribute(attributes, NHA_GROUP) {
        let member = |member: &[u8]| Some((read_u32(member, 0)?, u32::from(*member.get(4)?) + 1));
        return Some((id, NextHopObject::Group(members.chunks_exact(MEMBER).filter_map(member).collect())));
    }
    let interface = read_u32(find_attribute(attributes, NHA_OIF)?, 0)?;
    let gateway = find_attribute(attributes, NHA_GATEWAY).and_then(|bytes| read_address(family, bytes));
    Some((id, NextHopObject::Single(RouteHop { interface, gateway, weight: 1 })))
}

/// Parses a route of IPv4 or IPv6. Returns `None` for a malformed message and for a clone, which
/// the kernel made for one destination.
fn parse_route(body: &[u8]) -> Option<Route> {
    const RTM_F_CLONED: u32 = 0x200;
    const RTA_DST: u16 = 1;
    const RTA_OIF: u16 = 4;
    const RTA_PRIORITY: u16 = 6;
    const RTA_METRICS: u16 = 8;
    const RTA_MULTIPATH: u16 = 9;
    const RTA_TABLE: u16 = 15;
    const RTA_NH_ID: u16 = 30;
    const RTAX_MTU: u16 = 2;
    const RTN_UNICAST: u8 = 1;
    const RTN_BLACKHOLE: u8 = 6;
    const RTN_PROHIBIT: u8 = 8;
    let (family, prefix_len, table, route_type) = (*body.first()?, *body.get(1)?, *body.get(4)?, *body.get(7)?);
    let attributes = body.get(BODY..)?;
    if read_u32(body, 8)? & RTM_F_CLONED != 0 {
        return None;
    }
    let number_of = |kind| find_attribute(attributes, kind).and_then(|bytes| read_u32(bytes, 0));
    let destination = match find_attribute(attributes, RTA_DST) {
        Some(bytes) => read_address(family, bytes)?,
        None if family == AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        None if family == AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        None => return None,
    };
    let action = match route_type {
        RTN_UNICAST => match (number_of(RTA_NH_ID), find_attribute(attributes, RTA_MULTIPATH)) {
            (Some(id), _) => RouteAction::Object(id),
            (None, Some(paths)) => RouteAction::Forward(parse_multipath(family, paths)),
            (None, None) => {
                let gateway = parse_gateway(family, attributes);
                RouteAction::Forward(vec![RouteHop { interface: number_of(RTA_OIF)?, gateway, weight: 1 }])
            }
        },
        RTN_BLACKHOLE..=RTN_PROHIBIT => RouteAction::Drop,
        _ => RouteAction::Other,
    };
    let metrics = find_attribute(attributes, RTA_METRICS).unwrap_or_default();
    let mtu = find_attribute(metrics, RTAX_MTU).and_then(|bytes| read_u32(bytes, 0)).filter(|mtu| *mtu > 0);
    Some(Route {
        table: number_of(RTA_TABLE).unwrap_or(u32::from(table)),
        destination: IpNet::new(destination, prefix_len).ok()?,
        metric: number_of(RTA_PRIORITY).unwrap_or(0),
        mtu_bytes: mtu.and_then(|mtu| u16::try_from(mtu).ok()),
        action,
    })
}

/// Parses the next hops of a route with several: a list of `struct rtnexthop`, each with
/// attributes.
fn parse_multipath(family: u8, mut bytes: &[u8]) -> Vec<RouteHop> {
    const RTNEXTHOP: usize = 8;
    const RTNH_F_DEAD: u8 = 1;
    let mut hops = Vec::new();
    while let (Some(len), Some(interface)) = (read_u16(bytes, 0), read_u32(bytes, 4)) {
        let len = usize::from(len);
        let Some(hop) = bytes.get(..len).filter(|hop| hop.len() >= RTNEXTHOP) else { break };
        if hop[2] & RTNH_F_DEAD == 0 {
            let gateway = parse_gateway(family, &hop[RTNEXTHOP..]);
            hops.push(RouteHop { interface, gateway, weight: u32::from(hop[3]) + 1 });
        }
        bytes = bytes.get(align(len)..).unwrap_or_default();
    }
    hops
}

/// Returns the router among the attributes of a route; that of an IPv4 route can have an IPv6
/// address (RFC 8950).
fn parse_gateway(family: u8, attributes: &[u8]) -> Option<IpAddr> {
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    if let Some(bytes) = find_attribute(attributes, RTA_GATEWAY) {
        return read_address(family, bytes);
    }
    let via = find_attribute(attributes, RTA_VIA)?;
    read_address(u8::try_from(read_u16(via, 0)?).ok()?, via.get(2..)?)
}

/// Returns the value of the first attribute of a kind.
fn find_attribute(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    /// The two upper bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
    const KIND_MASK: u16 = 0x3fff;
    loop {
        let len = usize::from(read_u16(attributes, 0)?);
        let value = attributes.get(4..len)?;
        if read_u16(attributes, 2)? & KIND_MASK == kind {
            return Some(value);
        }
        attributes = attributes.get(align(len)..)?;
    }
}

fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))),
        AF_INET6 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))),
        _ => None,
    }
}
