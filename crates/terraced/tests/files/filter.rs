//! Compares the node's filters with libpcap's: on random packets with many filters, and on random
//! instructions.

use node::explain::filter::{BpfInstruction, PacketFilter};
use pcap::{BpfProgram, Capture, Linktype};

const FILTERS: &[&str] = &[
    "ip",
    "ip6",
    "arp",
    "udp port 4789",
    "tcp port 80 or tcp port 443",
    "host 10.0.0.1",
    "src host 10.0.0.1 and dst host 10.0.0.2",
    "net 10.0.0.0/8",
    "ip6 host fd00::1",
    "ether host 02:00:00:00:00:01",
    "ether proto 0x88b5",
    "vlan",
    "vlan 5 and ip and udp",
    "icmp or icmp6",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "ip[2:2] > 100",
    "portrange 50-60",
    "less 64",
    "greater 65",
    "ip proto 47 or not (ip or ip6)",
    "ether src 02:00:00:00:00:00 or ether multicast",
    "ip[0] & 0xf != 5",
    "udp[8] & 1 = 1 and udp[9] ^ 1 != 0",
    "ether[len - 1] = 3",
    "ip[8] % 3 = 1",
    "(ip[8] * 3 - 2) / 2 << 2 >> 1 > 20",
    "-ip[9] = -6",
];

fn instructions(program: &BpfProgram) -> Vec<BpfInstruction> {
    let one = |instruction: &pcap::BpfInstruction| {
        let numbers: Vec<u32> =
            instruction.to_string().split(' ').map(|word| word.parse().expect("a number")).collect();
        BpfInstruction { code: numbers[0] as u16, jt: numbers[1] as u8, jf: numbers[2] as u8, k: numbers[3] }
    };
    program.get_instructions().iter().map(one).collect()
}

/// Returns a roughly valid packet, truncated anywhere.
fn packet(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, rng.u8(..3), 2, 0, 0, 0, 0, rng.u8(..3)];
    if rng.bool() {
        bytes.extend([0x81, 0, 0, rng.u8(..8)]);
    }
    let protocol = [6, 17, 1, 58, 47][rng.usize(..5)];
    let ports = [80, 443, 53, 55, 4789, 7];
    let port = |rng: &mut fastrand::Rng| u16::to_be_bytes(ports[rng.usize(..ports.len())]);
    match rng.u8(..5) {
        0 => bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]),
        1 => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, protocol, 64]);
            for _ in 0..2 {
                bytes.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, rng.u8(..3)]);
            }
        }
        2 => bytes.extend([0x88, 0xb5]),
        _ => {
            let words = 5 + rng.u8(..2);
            bytes.extend([8, 0, 0x40 | words, 0, 0, rng.u8(..)]);
            bytes.extend([0, 0, if rng.u8(..4) == 0 { rng.u8(..64) } else { 0 }, 0, rng.u8(..), protocol, 0, 0]);
            bytes.extend([10, 0, 0, rng.u8(..3), 10, if rng.bool() { 0 } else { 255 }, 0, rng.u8(..3)]);
            bytes.resize(bytes.len() + 4 * usize::from(words - 5), 0);
        }
    }
    bytes.extend(port(rng));
    bytes.extend(port(rng));
    bytes.extend((0..rng.usize(..60)).map(|_| rng.u8(..4)));
    bytes.truncate(rng.usize(1..=bytes.len() + 40));
    bytes
}

#[test]
fn filters_take_what_libpcap_takes() {
    let mut rng = fastrand::Rng::with_seed(0x7e44);
    let dead = Capture::dead(Linktype::ETHERNET).expect("libpcap");
    for optimize in [true, false] {
        for text in FILTERS {
            let program = dead.compile(text, optimize).unwrap_or_else(|error| panic!("{text}: {error}"));
            let filter = PacketFilter::new(&instructions(&program)).unwrap_or_else(|error| panic!("{text}: {error}"));
            let (mut taken, mut left) = (0, 0);
            for _ in 0..4000 {
                let packet = packet(&mut rng);
                let takes = program.filter(&packet);
                assert_eq!(filter.takes(&packet), takes, "{text}: {packet:02x?}");
                *if takes { &mut taken } else { &mut left } += 1;
            }
            assert!(taken > 10 && left > 10, "{text}: {taken} taken, {left} left: it says nothing");
        }
    }
}

/// Any instructions are either rejected, or terminate on any packet.
#[test]
fn random_instructions_end() {
    let mut rng = fastrand::Rng::with_seed(0x7e45);
    let codes = [
        0x00, 0x01, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x61, 0x80, 0x81, 0xb1, 0x02, 0x03, 0x04, 0x0c, 0x14,
        0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac,
        0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d, 0x06, 0x16, 0x07, 0x87,
    ];
    let (mut good, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let len = rng.usize(1..20);
        let mut all: Vec<BpfInstruction> = (0..len)
            .map(|_| {
                let code = if rng.u8(..50) == 0 { rng.u16(..) } else { codes[rng.usize(..codes.len())] };
                let k = if rng.u8(..4) == 0 { rng.u32(..) } else { rng.u32(..16) };
                BpfInstruction { code, jt: rng.u8(..4), jf: rng.u8(..4), k }
            })
            .collect();
        all.push(BpfInstruction { code: 0x16, jt: 0, jf: 0, k: 0 });
        match PacketFilter::new(&all) {
            Ok(filter) => {
                good += 1;
                (0..4).for_each(|_| {
                    filter.takes(&packet(&mut rng));
                });
            }
            Err(_) => refused += 1,
        }
    }
    assert!(good > 1000 && refused > 1000, "{good} good, {refused} refused");
}
