//! Numbered frames for `marks.p4`, and who sends them and looks at what comes back.

use io::Port;
use packet::{Batch, Packet, PortId};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kind of frames that carry marks.
pub const KIND: u16 = 0x88b5;
/// How long a frame may be under way.
const PATIENCE: Duration = Duration::from_secs(20);
/// Frames under way at most.
const WINDOW: u32 = 700;

/// A frame with marks, to destination 1.
pub fn frame(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[5] = 1;
    bytes[12..14].copy_from_slice(&KIND.to_be_bytes());
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Number, both marks and program of a frame that came back.
pub fn read(bytes: &[u8]) -> (u32, u16, u16, u8) {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    (u32::from(word(14)) << 16 | u32::from(word(16)), word(18), word(20), bytes[22])
}

/// What came back.
#[derive(Debug, Default)]
pub struct Seen {
    pub sent: u32,
    pub back: u32,
    /// Saw half of a write batch.
    pub halves: u32,
    /// The marks, which tell write batches apart.
    pub marks: BTreeSet<u16>,
    /// By program.
    pub programs: [u32; 3],
    /// The longest time in which nothing came back.
    pub longest: Duration,
}

/// Lets [`drive`] stop, also if the test fails before it says so.
pub struct Stopping<'a>(pub &'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends numbered frames into a port that gives them back until told to stop, and looks at each: all come, once, in order.
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
        // Kernels say things of their own on interfaces.
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
