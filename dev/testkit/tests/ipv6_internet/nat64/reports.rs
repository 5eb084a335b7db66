//! Public reports about NAT64 of other projects, tried here.

use super::fixture::*;
use super::{a1, exchange, web};
use crate::fixture::{Packet as V6, checksum_of};
use testkit::frame::checksum;

/// <https://github.com/NICMx/Jool/issues/396>: time exceeded with a length of RFC 4884 whose quotation has not
/// the padding of that RFC.
#[test]
fn jool_396_the_length_of_a_quotation_is_no_reason_to_drop_it() {
    let mut gateway = Gateway::new();
    let sent = exchange(&mut gateway, A, &V6::ping((a1(), 7), web(A).0));
    let received = gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [11, 0], [0, 17, 0, 0], &sent.bytes()));
    assert_eq!(received[40..48], [&[3, 0][..], &received[42..44], &[0; 4]].concat());
    // An extension behind the quotation stays where it is.
    let extended = [&sent.bytes()[..], &[0; 84], &[0x20, 0, 0xdf, 0xff]].concat();
    let received = gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [11, 0], [0, 32, 0, 0], &extended));
    assert_eq!(received[received.len() - 4..], [0x20, 0, 0xdf, 0xff]);
}

/// <https://github.com/NICMx/Jool/issues/135>: an error that quotes UDP without a checksum, which the NAT never
/// sent.
#[test]
fn jool_135_quoted_udp_without_a_checksum_keeps_none() {
    let mut gateway = Gateway::new();
    let packet = V6::udp((a1(), 53), web(A));
    let sent = exchange(&mut gateway, A, &packet);
    let mut quoted = sent.bytes();
    quoted[26..28].fill(0);
    let received = gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [3, 1], [0; 4], &quoted));
    assert_eq!(received[94..96], [0, 0]);
    let mut quoted = packet.answer(0).bytes();
    quoted[46..48].fill(0);
    let bytes = gateway.sent_bytes(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &quoted));
    assert_eq!((checksum(&bytes[20..]), &bytes[54..56]), (0, &[0, 0][..]));
}

/// <https://github.com/NICMx/Jool/issues/126>: errors with a wrong checksum of the quoted header. They are
/// dropped by name, as over IPv4 (RFC 5508, REQ-3).
#[test]
fn jool_126_a_wrong_checksum_of_the_quoted_header_has_a_name() {
    let mut gateway = Gateway::new();
    let sent = exchange(&mut gateway, A, &V6::udp((a1(), 53), web(A)));
    let mut quoted = sent.bytes();
    quoted[10] ^= 1;
    assert_eq!(gateway.refuse_in(&icmpv4(ROUTER, sent.from.0, [11, 0], [0; 4], &quoted)), "nat_quote");
}

/// <https://github.com/yanet-platform/yanet2/issues/1160>: an MTU below 20 wrapped around.
#[test]
fn yanet2_1160_no_mtu_wraps_around() {
    let mut gateway = Gateway::new();
    let packet = V6::udp((a1(), 53), web(A));
    exchange(&mut gateway, A, &packet);
    for (over_v6, over_v4) in
        [(0u32, 1260u16), (1, 1260), (19, 1260), (20, 1260), (u32::MAX, u16::MAX), (0x1_0005, u16::MAX)]
    {
        let error = icmpv6(a1(), web(A).0, [2, 0], over_v6.to_be_bytes(), &packet.answer(0).bytes());
        let bytes = gateway.sent_bytes(A, &error);
        assert_eq!(bytes[24..28], u32::from(over_v4).to_be_bytes(), "{over_v6}");
    }
}

/// <https://github.com/ayourtch/nat46/issues/76>: an ICMPv6 error without a quotation crashed the kernel.
#[test]
fn nat46_76_errors_with_short_quotations_have_a_name() {
    let mut gateway = Gateway::new();
    let packet = V6::udp((a1(), 53), web(A));
    let sent = exchange(&mut gateway, A, &packet);
    let (v6, v4) = (packet.answer(0).bytes(), sent.bytes());
    for len in 0..48 {
        assert_eq!(gateway.refuse_out(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &v6[..len])), "nat_quote", "{len}");
    }
    gateway.sent_bytes(A, &icmpv6(a1(), web(A).0, [1, 4], [0; 4], &v6[..48]));
    for len in 0..28 {
        let reason = gateway.refuse_in(&icmpv4(ROUTER, sent.from.0, [3, 3], [0; 4], &v4[..len]));
        assert!(["nat_protocol", "nat_quote"].contains(&reason.as_str()), "{len}: {reason}");
    }
    let received = gateway.received_bytes(A, &icmpv4(ROUTER, sent.from.0, [3, 3], [0; 4], &v4[..28]));
    assert_eq!((received.len(), checksum_of(&received)), (96, 0));
}

/// <https://github.com/FDio/vpp/issues/2797>: packets to the translator itself were translated. The gateway's own
/// address answers as without NAT64.
#[test]
fn vpp_2797_the_gateways_own_address_is_no_host() {
    let mut gateway = Gateway::new();
    let region = REGION.replacen("  nat64: {}\n", "  nat64: {}\n  answer: [echo, neighbours]\n", 1);
    gateway.0.change_region(&region);
    let own = crate::fixture::ip("fd00:a::1");
    let ping = V6::ping((a1(), 7), own);
    match gateway.send_bytes(A, &ping.bytes()) {
        Outcome::Server(A, bytes) => assert_eq!((bytes[40], checksum_of(&bytes)), (129, 0)),
        other => panic!("{other:?}"),
    }
}
