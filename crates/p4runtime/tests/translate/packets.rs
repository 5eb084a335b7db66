//! Tests `PacketIn` and `PacketOut`: section "Packet I/O".

use crate::bench::*;
use p4runtime::proto::v1::{PacketMetadata, PacketOut};
use p4runtime::{Code, Schema};

fn metadata(metadata_id: u32, value: &'static [u8]) -> PacketMetadata {
    PacketMetadata { metadata_id, value: value.into() }
}

#[test]
fn packets_to_the_controller() {
    let bench = bench();
    // bit<9> 0x1ff, bit<6> 0x15, bit<1> 1: nine ones, 010101, 1.
    let packet = bench.schema.packet_in(&vec![0xff, 0b1010_1011, 9, 8].into()).unwrap();
    assert_eq!(packet.payload[..], [9, 8]);
    assert_eq!(packet.metadata, [metadata(1, b"\x01\xff"), metadata(2, b"\x15"), metadata(3, b"\x01")]);
    let empty = bench.schema.packet_in(&vec![0, 0].into()).unwrap();
    assert_eq!(empty.metadata, [metadata(1, b"\x00"), metadata(2, b"\x00"), metadata(3, b"\x00")]);
    refused(bench.schema.packet_in(&vec![0].into()), Code::Internal, "shorter than the header's 2");
}

#[test]
fn packets_of_the_controller() {
    let bench = bench();
    let send = |metadata: &[PacketMetadata]| {
        bench.schema.packet_out(&PacketOut { payload: "body".into(), metadata: metadata.to_vec() })
    };
    // bit<9>, bit<3>, int<4>, in any order.
    let all = [metadata(3, b"\xfe"), metadata(1, b"\x01\x01"), metadata(2, b"\x05")];
    assert_eq!(ok(send(&all))[..], *b"\x80\xdebody");
    refused(send(&all[..2]), Code::InvalidArgument, "packet_out, metadata queue: it is missing");
    let twice = [all[0].clone(), all[1].clone(), all[2].clone(), all[2].clone()];
    refused(send(&twice), Code::InvalidArgument, "packet_out, metadata queue: it is given twice");
    let unknown = [all[0].clone(), all[1].clone(), metadata(4, b"\x01")];
    refused(send(&unknown), Code::InvalidArgument, "no metadata with id 4 .. 2 queue");
    let wide = [all[0].clone(), metadata(1, b"\x02\x00"), all[2].clone()];
    refused(send(&wide), Code::OutOfRange, "egress_port .. the 9");
    let empty = [all[0].clone(), metadata(1, b""), all[2].clone()];
    refused(send(&empty), Code::OutOfRange, "egress_port .. empty");
}

#[test]
fn programs_without_headers() {
    let schema = Schema::new(compile("tests/corpus/v1model/drop.p4"));
    let packet = schema.packet_in(&vec![1, 2].into()).unwrap();
    assert_eq!((packet.payload.len(), packet.metadata.len()), (2, 0));
    let mut out = PacketOut { payload: "body".into(), metadata: Vec::new() };
    assert_eq!(ok(schema.packet_out(&out))[..], *b"body");
    out.metadata.push(metadata(1, b"\x01"));
    refused(schema.packet_out(&out), Code::InvalidArgument, "no such header");
}
