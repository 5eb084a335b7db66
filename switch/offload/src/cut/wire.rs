//! Bridge headers as bytes: what those who move packets between tiers read and write in them. All numbers are in network order.

use super::{BACK, ETHERTYPE, HELLO, HITS};

/// Bytes that each bridge header begins with.
pub const FIXED: usize = 27;
const ETHERTYPE_AT: usize = 12;
const KEY_AT: usize = 14;
const STOP_AT: usize = 18;
const PORT_AT: usize = 19;
const LENGTH_AT: usize = 23;
const MARK_AT: usize = 25;

/// What a packet's bridge header says besides what the program put into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// The stop; [`BACK`] of a packet that comes back.
    pub stop: u8,
    /// On the way down the port on which the packet came, on the way back the one on which it is to leave.
    pub port: u32,
    /// The length in bytes with which it came.
    pub length: u16,
    /// The mark of a packet that is followed; 0 if it is not.
    pub mark: u16,
}

/// Whether the frame has a bridge header with that key, or looks as if: by ethertype and key.
pub fn is_bridged(frame: &[u8], key: u32) -> bool {
    frame.get(ETHERTYPE_AT..KEY_AT) == Some(&ETHERTYPE.to_be_bytes()[..])
        && frame.get(KEY_AT..STOP_AT) == Some(&key.to_be_bytes()[..])
}

/// Reads a bridge header. `None`: it is none, or has another key.
pub fn read(frame: &[u8], key: u32) -> Option<Told> {
    if !is_bridged(frame, key) || frame.len() < FIXED {
        return None;
    }
    let short = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let port = u32::from_be_bytes([frame[PORT_AT], frame[PORT_AT + 1], frame[PORT_AT + 2], frame[PORT_AT + 3]]);
    Some(Told { stop: frame[STOP_AT], port, length: short(LENGTH_AT), mark: short(MARK_AT) })
}

/// Fills in what the pipeline left open in a packet that goes down; the length only if it is 0. Gives what is there then. A frame that is too short to be one stays as it is.
pub fn stamp(frame: &mut [u8], key: u32, port: u32, length: u16, mark: u16) -> Option<Told> {
    let told = read(frame, key)?;
    let length = if told.length == 0 { length } else { told.length };
    let told = Told { port, length, mark, ..told };
    fill(frame, told);
    Some(told)
}

fn fill(frame: &mut [u8], told: Told) {
    if let Some(header) = frame.get_mut(PORT_AT..FIXED) {
        header[..4].copy_from_slice(&told.port.to_be_bytes());
        header[LENGTH_AT - PORT_AT..MARK_AT - PORT_AT].copy_from_slice(&told.length.to_be_bytes());
        header[MARK_AT - PORT_AT..].copy_from_slice(&told.mark.to_be_bytes());
    }
}

/// Writes the bridge header of a packet that goes back, to leave on a port. `header` is as long as bridge headers of the cut are, at least [`FIXED`], else
/// nothing is written.
pub fn back(header: &mut [u8], key: u32, port: u32, mark: u16) {
    write(header, key, Told { stop: BACK, port, length: 0, mark });
}

/// Writes the question whether the tier at the other end is there; `header` as in [`back`].
pub fn hello(header: &mut [u8], key: u32) {
    write(header, key, Told { stop: HELLO, ..Told::default() });
}

/// How often packets have found entries of a table below: what a tier below tells the switch, whose hot entries are chosen by it. A report is one or more frames.
///
/// Behind the first [`FIXED`] bytes, whose port is the table's number and whose length is the number of entries: who reports (64 bits, its choice when it starts), the
/// report's number (32), and for each entry [`crate::hot::fingerprint`] (64) and thousandths of hits a second (64).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    /// The table, by its number in the program.
    pub table: u32,
    /// Who reports.
    pub instance: u64,
    /// The report's number.
    pub number: u32,
    /// Entries, and thousandths of hits a second.
    pub entries: Vec<(u64, u64)>,
}

/// The most entries of a frame: 1,514 bytes.
pub const MAX_HITS: usize = 92;
const HITS_AT: usize = FIXED + 12;

impl Hits {
    /// The frame. Entries beyond [`MAX_HITS`] are left out.
    pub fn frame(&self, key: u32) -> Vec<u8> {
        let entries = &self.entries[..self.entries.len().min(MAX_HITS)];
        let mut frame = vec![0; FIXED];
        write(&mut frame, key, Told { stop: HITS, port: self.table, length: entries.len() as u16, mark: 0 });
        frame.extend(self.instance.to_be_bytes());
        frame.extend(self.number.to_be_bytes());
        for (entry, hits) in entries {
            frame.extend(entry.to_be_bytes());
            frame.extend(hits.to_be_bytes());
        }
        frame
    }

    /// What such a frame says. `None`: it is none, has another key, or says of more entries than it has. What an interface has added at its end does not matter.
    pub fn read(frame: &[u8], key: u32) -> Option<Hits> {
        let told = read(frame, key).filter(|told| told.stop == HITS)?;
        let count = usize::from(told.length);
        let (instance, rest) = frame.get(FIXED..)?.split_first_chunk()?;
        let number = rest.first_chunk()?;
        let entries = frame.get(HITS_AT..HITS_AT + count * 16).filter(|_| count <= MAX_HITS)?;
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Some(Hits {
            table: told.port,
            instance: u64::from_be_bytes(*instance),
            number: u32::from_be_bytes(*number),
            entries: entries.chunks_exact(16).map(|entry| (word(&entry[..8]), word(&entry[8..]))).collect(),
        })
    }
}

fn write(header: &mut [u8], key: u32, told: Told) {
    if header.len() < FIXED {
        return;
    }
    header.fill(0);
    header[ETHERTYPE_AT..KEY_AT].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header[KEY_AT..STOP_AT].copy_from_slice(&key.to_be_bytes());
    header[STOP_AT] = told.stop;
    fill(header, told);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut frame = [0xaa; 40];
        back(&mut frame, 7, 0x1234_5678, 9);
        assert_eq!(read(&frame, 7), Some(Told { stop: BACK, port: 0x1234_5678, length: 0, mark: 9 }));
        assert_eq!(read(&frame, 8), None);
        let told = Told { stop: BACK, port: 3, length: 9216, mark: 0 };
        assert_eq!(stamp(&mut frame, 7, 3, 9216, 0), Some(told));
        assert_eq!(stamp(&mut frame, 7, 3, 1, 0), Some(told), "a length that is there stays");
        assert_eq!(stamp(&mut frame, 8, 4, 1, 0), None);
        assert_eq!(read(&frame, 7), Some(told));
        assert_eq!(read(&frame[..FIXED - 1], 7), None);
        assert!(!is_bridged(&frame[..17], 7) && is_bridged(&frame[..18], 7));
    }

    #[test]
    fn hits_are_read_as_written_and_no_other_way() {
        let entries: Vec<(u64, u64)> = (0..MAX_HITS as u64).map(|n| (n << 40 | 7, u64::MAX - n)).collect();
        let hits = Hits { table: 3, instance: 0x0102_0304_0506_0708, number: 9, entries };
        let mut frame = hits.frame(7);
        assert_eq!((frame.len(), Hits::read(&frame, 7)), (1_511, Some(hits.clone())));
        assert_eq!(Hits::read(&frame, 8), None);
        for len in 0..frame.len() {
            assert_eq!(Hits::read(&frame[..len], 7), None, "{len} bytes");
        }
        frame[LENGTH_AT + 1] += 1;
        frame.extend([0; 16]);
        assert_eq!(Hits::read(&frame, 7), None, "more than there may be");
        let few = Hits { entries: hits.entries[..2].to_vec(), ..hits };
        frame = few.frame(7);
        frame.resize(60.max(frame.len()) + 20, 0);
        assert_eq!(Hits::read(&frame, 7), Some(few), "what fills up a frame does not count");
    }
}
