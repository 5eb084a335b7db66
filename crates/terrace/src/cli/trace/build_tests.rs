//! Tests of packet descriptions: their bytes as parsed by an independent parser (etherparse), and
//! the errors for invalid ones.

use super::packet;
use etherparse::{LaxPacketHeaders, NetHeaders, PacketHeaders, TransportHeader};

fn good(text: &str) -> Vec<u8> {
    packet(text).unwrap_or_else(|bad| panic!("{bad}"))
}

fn wrong(text: &str) -> String {
    packet(text).expect_err(text).to_string()
}

#[test]
fn lengths_types_and_checksums_are_filled_in() {
    let bytes =
        good("eth(dst=02:00:00:00:00:09)/ipv4(src=10.1.0.1, dst=10.2.0.2, ttl=9)/udp(sport=1,dport=53)/payload(64)");
    assert_eq!(bytes.len(), 14 + 20 + 8 + 64);
    let headers = PacketHeaders::from_ethernet_slice(&bytes).unwrap();
    let Some(NetHeaders::Ipv4(ip, _)) = &headers.net else { panic!("{headers:?}") };
    assert_eq!((ip.source, ip.destination, ip.time_to_live), ([10, 1, 0, 1], [10, 2, 0, 2], 9));
    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
    let Some(TransportHeader::Udp(udp)) = &headers.transport else { panic!("{headers:?}") };
    assert_eq!((udp.source_port, udp.destination_port, udp.length), (1, 53, 72));
    assert_eq!(udp.checksum, udp.calc_checksum_ipv4(ip, headers.payload.slice()).unwrap());
    assert_eq!(headers.payload.slice()[..3], [0, 1, 2]);

    let bytes = good("eth/vlan(id=7,pcp=3)/ipv6(src=fd00::5)/tcp(flags=syn+ack,seq=5)");
    let headers = PacketHeaders::from_ethernet_slice(&bytes).unwrap();
    assert_eq!(bytes[12..16], [0x81, 0, 0x60, 7]);
    let Some(NetHeaders::Ipv6(ip, _)) = &headers.net else { panic!("{headers:?}") };
    let Some(TransportHeader::Tcp(tcp)) = &headers.transport else { panic!("{headers:?}") };
    assert!(tcp.syn && tcp.ack && !tcp.fin && tcp.sequence_number == 5);
    assert_eq!(tcp.checksum, tcp.calc_checksum_ipv6(ip, &[]).unwrap());

    for text in ["eth/ipv4/icmp(id=3)/payload(5)", "eth/ipv6/icmpv6(seq=2)/payload(hex=00ff)"] {
        let headers = good(text);
        let headers = PacketHeaders::from_ethernet_slice(&headers).unwrap();
        let payload = headers.payload.slice();
        match (&headers.net, &headers.transport) {
            (_, Some(TransportHeader::Icmpv4(icmp))) => {
                assert_eq!(icmp.checksum, icmp.icmp_type.calc_checksum(payload))
            }
            (Some(NetHeaders::Ipv6(ip, _)), Some(TransportHeader::Icmpv6(icmp))) => {
                let right = icmp.icmp_type.calc_checksum(ip.source, ip.destination, payload).unwrap();
                assert_eq!(icmp.checksum, right);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_within_a_tunnel_is_a_packet_of_its_own() {
    let inner = "eth(src=02:00:00:00:00:0a)/ipv4(src=192.168.0.1)/tcp(dport=443)/payload(10)";
    let bytes = good(&format!("eth/ipv4/udp/vxlan(vni=0x64)/{inner}"));
    assert_eq!(bytes[36..38], 4789u16.to_be_bytes());
    assert_eq!(bytes[42..50], [8, 0, 0, 0, 0, 0, 100, 0]);
    assert_eq!(bytes[50..], good(inner));
    let arp = good("eth/arp(op=reply,spa=10.0.0.7)");
    let headers = LaxPacketHeaders::from_ethernet(&arp).unwrap();
    let Some(NetHeaders::Arp(arp)) = headers.net else { panic!("{headers:?}") };
    assert_eq!((arp.operation.0, arp.sender_protocol_addr()), (2, &[10, 0, 0, 7][..]));
}

#[test]
fn what_is_given_is_not_filled_in() {
    let bytes = good("eth(type=0x1234)/ipv4(proto=99,checksum=0xdead)/udp(checksum=0)/payload(1)");
    assert_eq!((&bytes[12..14], bytes[23], &bytes[24..26]), (&[0x12, 0x34][..], 99, &[0xde, 0xad][..]));
    assert_eq!(bytes[40..42], [0, 0]);
    // Without a next layer the EtherType is unknown, and the largest number is used.
    assert_eq!(good("eth")[12..], [0xff, 0xff]);
}

#[test]
fn mistakes_have_their_place_and_mend() {
    let text = wrong("eth/ipv4(src=10.0.0.300)/udp");
    let wanted =
        "`10.0.0.300` is no src of ipv4; give an IPv4 address such as 10.0.0.1\n  eth/ipv4(src=10.0.0.300)/udp\n";
    assert_eq!(text, format!("{wanted}  {}^", " ".repeat(13)));
    for (text, said) in [
        ("eth/ipv5", "`ipv5` is no layer; there are eth, vlan"),
        (
            "eth/udp",
            "udp does not follow eth; put ipv4 or ipv6 or arp or vlan between, or give the next type with eth(type=NUMBER)",
        ),
        ("eth(dst=1)", "give a MAC address such as"),
        ("eth/ipv4(tll=3)", "ipv4 has no field `tll`; it has src, dst, df, mf, offset, tos, id, ttl, proto, checksum"),
        ("eth/ipv4(ttl=256)", "`256` is no ttl of ipv4; give a number up to 255"),
        ("eth/ipv4(ttl=1,ttl=2)", "`ttl` is given twice"),
        ("eth/ipv4(64)", "`64` has no name; write FIELD=64"),
        ("eth/ipv4/tcp(flags=sin)", "give fin, syn, rst"),
        ("eth/ipv4(ttl=1/udp", "a `)` is missing here"),
        ("eth//udp", "a layer is missing here"),
        ("", "a layer is missing here"),
        ("eth/payload(10)/ipv4", "nothing follows payload"),
        ("eth/payload(hex=abc)", "give an even number of hex digits"),
        ("eth/payload(100000000)", "is no number up to"),
    ] {
        let message = wrong(text);
        assert!(message.contains(said), "{text}: {message}");
        assert!(message.lines().count() == 3, "{message}");
    }
    assert!(wrong(&["eth"; 100].join("/")).contains("at most 32 layers"));
}
