//! Tests pcap files: round trips, all four variants of the format, and damaged files.

use io::capture::{CaptureReader, CaptureWriter, Record};
use io::{CapturePort, Port, PortError, Readiness};
use packet::{Batch, MAX_WIRE_LEN, Packet, PortId, PortReason};
use proptest::prelude::*;
use std::io::Write;
use std::sync::{Arc, Mutex};

/// Builds a file of these header words in the byte order given, then the packets.
fn file(big_endian: bool, magic: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = word(magic).to_vec();
    bytes.extend([half(2), half(4)].concat());
    bytes.extend([word(0), word(0), word(65535), word(1)].concat());
    for (seconds, fraction, data) in records {
        let len = data.len() as u32;
        bytes.extend([word(*seconds), word(*fraction), word(len), word(len)].concat());
        bytes.extend_from_slice(data);
    }
    bytes
}

fn read_all(bytes: &[u8]) -> Result<Vec<Packet>, String> {
    let mut reader = CaptureReader::new("test.pcap", bytes).map_err(|error| error.to_string())?;
    let mut packets = Vec::new();
    loop {
        let mut packet = Packet::new();
        match reader.next(&mut packet).map_err(|error| error.to_string())? {
            Record::Packet => packets.push(packet),
            Record::Oversize(_) => {}
            Record::End => return Ok(packets),
        }
    }
}

#[test]
fn all_four_variants_are_read() {
    for (magic, time) in [(0xa1b2_c3d4, 7_000_005_000), (0xa1b2_3c4d, 7_000_000_005)] {
        for big_endian in [false, true] {
            let packets = read_all(&file(big_endian, magic, &[(7, 5, b"first"), (8, 0, b"")])).unwrap();
            assert_eq!(packets.len(), 2);
            assert_eq!((packets[0].bytes(), packets[0].rx_time_ns), (b"first".as_slice(), time));
            assert_eq!((packets[1].bytes(), packets[1].rx_time_ns), (b"".as_slice(), 8_000_000_000));
        }
    }
}

#[test]
fn damaged_files_are_refused_with_record_and_place() {
    let good = file(false, 0xa1b2_c3d4, &[(1, 1, b"one"), (2, 2, b"second")]);
    let refused = |bytes: &[u8]| read_all(bytes).unwrap_err();
    // Changes the word at this offset.
    let with = |offset: usize, value: u32| {
        let mut bytes = good.clone();
        bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        refused(&bytes)
    };
    let second = 24 + 16 + 3;
    assert_eq!(refused(&[]), "`test.pcap` is not a pcap file: its first bytes are 0x00000000");
    assert_eq!(refused(&good[..20]), "`test.pcap` is not a pcap file: its header has 20 of 24 bytes");
    assert!(with(0, 0x0a0d_0d0a).contains("pcapng file; convert it with `editcap -F pcap"));
    assert!(with(0, 0x1234_5678).contains("its first bytes are 0x78563412"));
    assert!(with(4, 0x0004_0003).contains("version 3"));
    assert!(with(20, 101).contains("link type 101, not Ethernet (1)"));
    assert!(with(20, 0x4400_0001).contains("frame check sequence"));
    assert_eq!(
        refused(&good[..good.len() - 1]),
        "`test.pcap`, packet 2 (at byte 43): the file ends within the packet (5 of 6 bytes): it was cut off"
    );
    assert!(
        refused(&good[..second + 9])
            .contains("packet 2 (at byte 43): the file ends within the record's header (9 of 16")
    );
    assert!(with(second + 4, 1_000_000).contains("packet 2 (at byte 43): its time"));
    assert!(with(second + 8, u32::MAX).contains("packet 2 (at byte 43): a length of 4294967295 bytes cannot be"));
    assert!(with(second + 12, 1500).contains("holds only 6 of the packet's 1500 bytes; capture whole packets"));
}

#[test]
fn packets_beyond_the_limit_are_passed_over_and_counted() {
    let long = vec![1; MAX_WIRE_LEN + 1];
    let bytes = file(false, 0xa1b2_c3d4, &[(0, 0, b"before"), (0, 0, &long), (0, 0, &long[1..])]);
    let mut port = CapturePort::new("in").reading("test.pcap", std::io::Cursor::new(bytes)).unwrap();
    let mut batch = Batch::new();
    assert_eq!(port.receive(PortId(1), &mut batch).unwrap(), 2);
    assert_eq!(batch.packets()[1].len(), MAX_WIRE_LEN);
    assert_eq!(port.counters().drops.get(PortReason::RxOversize).packets, 1);
    assert!(matches!(port.readiness(), Readiness::Ended));
}

#[test]
fn packets_before_the_damage_are_received_first() {
    let mut bytes = file(false, 0xa1b2_c3d4, &[(0, 0, b"one"), (0, 0, b"two")]);
    bytes.push(0);
    let mut port = CapturePort::new("in").reading("test.pcap", std::io::Cursor::new(bytes)).unwrap();
    let mut batch = Batch::new();
    assert_eq!(port.receive(PortId(1), &mut batch).unwrap(), 2);
    assert!(matches!(port.readiness(), Readiness::Now), "the error is still to come");
    let error = port.receive(PortId(1), &mut batch).unwrap_err();
    assert!(error.to_string().contains("packet 3 (at byte 62)"), "{error}");
    assert_eq!(batch.len(), 2);
    assert_eq!(port.receive(PortId(1), &mut batch).unwrap(), 0);
}

/// Shared memory that refuses to grow beyond a size, as a full disk does.
#[derive(Clone)]
struct Disk(Arc<Mutex<Vec<u8>>>, usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut content = self.0.lock().unwrap();
        if content.len() + bytes.len() > self.1 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        content.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_loses_packets_by_name_and_is_reported() {
    let disk = Disk(Arc::default(), 24 + 16 + 10);
    let mut port = CapturePort::new("out").writing("out.pcap", disk.clone()).unwrap();
    let packet = Packet::from_bytes(&[0; 10]).unwrap();
    assert_eq!(port.send_all(&mut [&packet, &packet, &packet].into_iter()), 1);
    assert_eq!(port.counters().drops.get(PortReason::TxError).packets, 2);
    let error = port.finish().unwrap_err();
    assert!(matches!(error, PortError::Capture(_)));
    assert_eq!(error.to_string(), "cannot write to the capture file `out.pcap`");
    assert_eq!(read_all(&disk.0.lock().unwrap()).unwrap().len(), 1);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..200), 0..4_294_967_295_999_999_999u64), 0..20),
    ) {
        let mut bytes = Vec::new();
        let mut writer = CaptureWriter::new("test.pcap", &mut bytes).unwrap();
        let packets: Vec<Packet> = packets
            .into_iter()
            .map(|(content, time)| {
                let mut packet = Packet::from_bytes(&content).unwrap();
                packet.rx_time_ns = time;
                packet
            })
            .collect();
        for packet in &packets {
            writer.write(packet).unwrap();
        }
        writer.flush().unwrap();
        prop_assert_eq!(read_all(&bytes).unwrap(), packets);
    }

    #[test]
    fn no_file_makes_it_panic_or_take_memory(
        flips in prop::collection::vec((0..80usize, any::<u8>()), 0..6),
        cut in 0..80usize,
        big_endian: bool,
    ) {
        let mut bytes = file(big_endian, 0xa1b2_3c4d, &[(1, 1, b"one"), (2, 2, b"second"), (3, 3, b"")]);
        for (offset, value) in flips {
            let offset = offset % bytes.len();
            bytes[offset] = value;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 3));
        if let Ok(packets) = read_all(&bytes) {
            prop_assert!(packets.iter().map(Packet::len).sum::<usize>() <= bytes.len());
        }
    }
}
