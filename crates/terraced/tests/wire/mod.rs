//! Numbered frames for `marks.p4`, and a sender that checks the returned frames.

use io::Port;
use packet::{Batch, Packet, PortId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// EtherType of the frames that carry marks.
pub const KIND: u16 = 0x88b5;
/// Maximum time in flight of a frame.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of frames in flight.
const WINDOW: u32 = 700;

/// Returns a frame with marks, to destination 1.
pub fn frame(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[5] = 1;
    bytes[12..14].copy_from_slice(&KIND.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Returns number, both marks and program of a returned frame.
pub fn read(bytes: &[u8]) -> (u32, u16, u16, u8) {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (u32::from(word(14)) << 16 | u32::from(word(16)), word(18), word(20), bytes[22])
}

/// Returned frames.
#[derive(Debug, Default)]
pub struct Seen {
    pub sent: u32,
    pub back: u32,
    /// Frames that saw half of a write batch.
    pub halves: u32,
    /// Marks, which distinguish write batches.
    pub marks: BTreeSet<u16>,
    /// Frames by program.
    pub programs: [u32; 3],
    /// Maximum time in which nothing returned.
    pub longest: Duration,
}

/// Stops [`drive`] when dropped, also if the test fails first.
pub struct Stopping<'a>(pub &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends numbered frames into a port that returns them until stopped, and checks that all return
/// once and in order.
pub fn drive(end: &mut dyn Port, stop: &AtomicBool) -> Seen {
    let (mut seen, mut last) = (Seen::default(), Instant::now());
    let mut batch = Batch::new();
    while !stop.load(Ordering::Relaxed) || seen.back < seen.sent {
        let count = if stop.load(Ordering::Relaxed) { 0 } else { (WINDOW - (seen.sent - seen.back)).min(64) };
        let frames: Vec<Packet> =
            (0..count).map(|index| Packet::from_bytes(&frame(seen.sent + index)).expect("short")).collect();
        assert_eq!(end.send_all(&mut frames.iter()), count as usize, "{:?}", end.counters());
        seen.sent += count;
        batch.clear();
        end.receive(PortId(1), &mut batch).expect("it goes on");
        // Kernels send their own packets on interfaces.
        for packet in batch.packets().iter().filter(|packet| packet.bytes()[12..14] == KIND.to_be_bytes()) {
            let (number, first, second, program) = read(packet.bytes());
            assert_eq!(number, seen.back, "packets come back in their order, and all of them");
            seen.back += 1;
            seen.halves += u32::from(first != second);
            seen.marks.insert(first);
            seen.programs[usize::from(program)] += 1;
            seen.longest = seen.longest.max(last.elapsed());
            last = Instant::now();
        }
        assert!(last.elapsed() < PATIENCE, "{seen:?}");
        if batch.is_empty() {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    seen
}
