//! Compares hashes of data of every length in native code with the interpreter's. Native code
//! hashes short data in registers, and longer data in memory.

use fastrand::Rng;
use std::fmt::Write;
use testkit::differ::env_number;
use testkit::differ::pair::{EnginePair, pna};

/// Length of the longest data in bytes: longer than the limit for hashing in registers.
const LONGEST: usize = 80;

/// Returns fields of any widths that have `bits` bits together.
fn widths(rng: &mut Rng, mut bits: usize) -> Vec<usize> {
    let mut widths = Vec::new();
    while bits > 0 {
        let width = rng.choice([1, 4, 7, 8, 8, 16, 24, 32, 32, 48, 64, 128, 200]).map_or(bits, |width| width.min(bits));
        widths.push(width);
        bits -= width;
    }
    rng.shuffle(&mut widths);
    widths
}

/// Returns a program that writes the hashes of `bits` bits of a header's fields into another
/// header.
fn program(rng: &mut Rng, bits: usize) -> String {
    let (mut fields, mut list) = (String::new(), Vec::new());
    for (at, width) in widths(rng, bits).into_iter().enumerate() {
        let _ = write!(fields, "bit<{width}> f{at}; ");
        list.push(format!("hdr.data.f{at}"));
    }
    if !bits.is_multiple_of(8) {
        let _ = write!(fields, "bit<{}> rest; ", 8 - bits % 8);
    }
    if rng.bool() {
        list.push(String::from("hdr.told.by"));
    }
    let list = list.join(", ");
    let types = format!(
        "header told_h {{ bit<32> crc32; bit<16> crc16; bit<64> wide; bit<8> by; }} header data_h {{ {fields} }}
         struct headers_t {{ told_h told; data_h data; }} struct metadata_t {{ }}"
    );
    let control = format!(
        "Hash<bit<32>>(PNA_HashAlgorithm_t.CRC32) by_crc32;
         Hash<bit<16>>(PNA_HashAlgorithm_t.CRC16) by_crc16;
         Hash<bit<64>>(PNA_HashAlgorithm_t.CRC32) wide;
         action put() {{ hdr.told.wide = wide.get_hash(64w7, {{ {list} }}, 64w1000); }}
         table lookup {{ key = {{ hdr.told.by: exact; }} actions = {{ put; NoAction; }} default_action = put();
                         const entries = {{ 0: NoAction(); 1: put(); }} }}
         apply {{
             send_to_port((PortId_t) 2);
             hdr.told.crc32 = by_crc32.get_hash({{ {list} }});
             lookup.apply();
             hdr.told.crc16 = by_crc16.get_hash({{ {list} }});
         }}"
    );
    let states = "state start { packet.extract(hdr.told); packet.extract(hdr.data); transition accept; }";
    pna(&types, states, &control, "packet.emit(hdr.told); packet.emit(hdr.data);")
}

#[test]
fn data_of_every_length_is_hashed_alike() {
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    println!("SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let mut told = std::collections::BTreeSet::new();
    for bytes in 1..=LONGEST {
        let bits = if rng.u8(..4) == 0 { bytes * 8 - rng.usize(..8) } else { bytes * 8 };
        let text = program(&mut rng, bits);
        let mut both = EnginePair::new(&format!("SEED={seed}, {bits} bits"), &text, bytes % 2 == 0);
        let packets: Vec<Vec<u8>> = (0..40u8)
            .map(|number| {
                let mut packet = vec![if number % 4 == 0 { 0xff } else { 0 }; 15 + bytes];
                if number % 4 > 1 {
                    rng.fill(&mut packet);
                }
                packet[14] = number % 3;
                packet
            })
            .collect();
        told.extend(both.assert_same_packets(&packets).into_iter().map(|packet| packet[..14].to_vec()));
    }
    assert!(told.len() > LONGEST * 20, "only {} hashes were different", told.len());
}
