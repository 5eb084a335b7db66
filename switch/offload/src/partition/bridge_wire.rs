//! Bridge headers as bytes, for the code that moves packets between tiers. All numbers are in
//! network order.

use super::{ETHERTYPE, HITS, PROBE, RETURNED};

/// Number of fixed bytes at the start of each bridge header.
pub const FIXED_BYTES: usize = 27;
const ETHERTYPE_AT: usize = 12;
const KEY_AT: usize = 14;
const STOP_AT: usize = 18;
const PORT_AT: usize = 19;
const LENGTH_AT: usize = 23;
const MARK_AT: usize = 25;

/// Fixed fields of a bridge header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BridgeFields {
    /// Cut point; [`RETURNED`] for a returned packet.
    pub cut_point: u8,
    /// Downwards: ingress port of the packet; back: output port.
    pub port: u32,
    /// Length in bytes at arrival.
    pub length_bytes: u16,
    /// Trace id of the packet; 0: not traced.
    pub trace_id: u16,
}

/// Returns whether a frame has the ethertype and key of a bridge header.
pub fn is_bridged(frame: &[u8], key: u32) -> bool {
    frame.get(ETHERTYPE_AT..KEY_AT) == Some(&ETHERTYPE.to_be_bytes()[..])
        && frame.get(KEY_AT..STOP_AT) == Some(&key.to_be_bytes()[..])
}

/// Reads the fixed fields of a bridge header. `None`: the frame has none, or another key.
pub fn read_header(frame: &[u8], key: u32) -> Option<BridgeFields> {
    if !is_bridged(frame, key) || frame.len() < FIXED_BYTES {
        return None;
    }
    let short = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let port = u32::from_be_bytes([frame[PORT_AT], frame[PORT_AT + 1], frame[PORT_AT + 2], frame[PORT_AT + 3]]);
    Some(BridgeFields { cut_point: frame[STOP_AT], port, length_bytes: short(LENGTH_AT), trace_id: short(MARK_AT) })
}

/// Fills in the fields that the pipeline leaves open in a packet to the lower tier; the length only
/// if it is 0. Returns the resulting fields. A frame without a complete header is unchanged.
pub fn complete_header(frame: &mut [u8], key: u32, port: u32, length: u16, mark: u16) -> Option<BridgeFields> {
    let told = read_header(frame, key)?;
    let length = if told.length_bytes == 0 { length } else { told.length_bytes };
    let told = BridgeFields { port, length_bytes: length, trace_id: mark, ..told };
    write_variable_fields(frame, told);
    Some(told)
}

fn write_variable_fields(frame: &mut [u8], told: BridgeFields) {
    if let Some(header) = frame.get_mut(PORT_AT..FIXED_BYTES) {
        header[..4].copy_from_slice(&told.port.to_be_bytes());
        header[LENGTH_AT - PORT_AT..MARK_AT - PORT_AT].copy_from_slice(&told.length_bytes.to_be_bytes());
        header[MARK_AT - PORT_AT..].copy_from_slice(&told.trace_id.to_be_bytes());
    }
}

/// Writes the bridge header of a packet that returns to leave on a port. `header` must have the
/// length of the partition's bridge headers, at least [`FIXED_BYTES`]; otherwise nothing is
/// written.
pub fn write_return_header(header: &mut [u8], key: u32, port: u32, mark: u16) {
    write_fixed_fields(header, key, BridgeFields { cut_point: RETURNED, port, length_bytes: 0, trace_id: mark });
}

/// Writes a liveness probe; for `header` see [`write_return_header`].
pub fn write_probe(header: &mut [u8], key: u32) {
    write_fixed_fields(header, key, BridgeFields { cut_point: PROBE, ..BridgeFields::default() });
}

/// Hit rates of a table's entries in a lower tier. The switch chooses its hot entries by these
/// reports. A report is one or more frames.
///
/// The port field holds the table's number and the length field the number of entries. After the
/// first [`FIXED_BYTES`] bytes follow: the reporter's id (64 bits, chosen at its start), the
/// report's sequence number (32), and for each entry [`crate::hot_set::entry_fingerprint`] (64) and
/// the rate in thousandths of hits per second (64).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HitReport {
    /// Number of the table in the program.
    pub table: u32,
    /// Id of the reporter.
    pub instance: u64,
    /// Sequence number of the report.
    pub sequence: u32,
    /// Fingerprints of entries with thousandths of hits per second.
    pub entries: Vec<(u64, u64)>,
}

/// Maximum number of entries in a frame of 1,514 bytes.
pub const MAX_HITS: usize = 92;
const HITS_AT: usize = FIXED_BYTES + 12;

impl HitReport {
    /// Returns the frame. Entries beyond [`MAX_HITS`] are omitted.
    pub fn to_frame(&self, key: u32) -> Vec<u8> {
        let entries = &self.entries[..self.entries.len().min(MAX_HITS)];
        let mut frame = vec![0; FIXED_BYTES];
        write_fixed_fields(
            &mut frame,
            key,
            BridgeFields { cut_point: HITS, port: self.table, length_bytes: entries.len() as u16, trace_id: 0 },
        );
        frame.extend(self.instance.to_be_bytes());
        frame.extend(self.sequence.to_be_bytes());
        for (entry, hits) in entries {
            frame.extend(entry.to_be_bytes());
            frame.extend(hits.to_be_bytes());
        }
        frame
    }

    /// Parses a frame. `None`: it is no report, has another key, or is shorter than its number of
    /// entries. Trailing padding is ignored.
    pub fn read(frame: &[u8], key: u32) -> Option<HitReport> {
        let told = read_header(frame, key).filter(|told| told.cut_point == HITS)?;
        let count = usize::from(told.length_bytes);
        let (instance, rest) = frame.get(FIXED_BYTES..)?.split_first_chunk()?;
        let number = rest.first_chunk()?;
        let entries = frame.get(HITS_AT..HITS_AT + count * 16).filter(|_| count <= MAX_HITS)?;
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Some(HitReport {
            table: told.port,
            instance: u64::from_be_bytes(*instance),
            sequence: u32::from_be_bytes(*number),
            entries: entries.chunks_exact(16).map(|entry| (word(&entry[..8]), word(&entry[8..]))).collect(),
        })
    }
}

fn write_fixed_fields(header: &mut [u8], key: u32, told: BridgeFields) {
    if header.len() < FIXED_BYTES {
        return;
    }
    header.fill(0);
    header[ETHERTYPE_AT..KEY_AT].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header[KEY_AT..STOP_AT].copy_from_slice(&key.to_be_bytes());
    header[STOP_AT] = told.cut_point;
    write_variable_fields(header, told);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut frame = [0xaa; 40];
        write_return_header(&mut frame, 7, 0x1234_5678, 9);
        assert_eq!(
            read_header(&frame, 7),
            Some(BridgeFields { cut_point: RETURNED, port: 0x1234_5678, length_bytes: 0, trace_id: 9 })
        );
        assert_eq!(read_header(&frame, 8), None);
        let told = BridgeFields { cut_point: RETURNED, port: 3, length_bytes: 9216, trace_id: 0 };
        assert_eq!(complete_header(&mut frame, 7, 3, 9216, 0), Some(told));
        assert_eq!(complete_header(&mut frame, 7, 3, 1, 0), Some(told), "a length that is there stays");
        assert_eq!(complete_header(&mut frame, 8, 4, 1, 0), None);
        assert_eq!(read_header(&frame, 7), Some(told));
        assert_eq!(read_header(&frame[..FIXED_BYTES - 1], 7), None);
        assert!(!is_bridged(&frame[..17], 7) && is_bridged(&frame[..18], 7));
    }

    #[test]
    fn hits_are_read_as_written_and_no_other_way() {
        let entries: Vec<(u64, u64)> = (0..MAX_HITS as u64).map(|n| (n << 40 | 7, u64::MAX - n)).collect();
        let hits = HitReport { table: 3, instance: 0x0102_0304_0506_0708, sequence: 9, entries };
        let mut frame = hits.to_frame(7);
        assert_eq!((frame.len(), HitReport::read(&frame, 7)), (1_511, Some(hits.clone())));
        assert_eq!(HitReport::read(&frame, 8), None);
        for len in 0..frame.len() {
            assert_eq!(HitReport::read(&frame[..len], 7), None, "{len} bytes");
        }
        frame[LENGTH_AT + 1] += 1;
        frame.extend([0; 16]);
        assert_eq!(HitReport::read(&frame, 7), None, "more than there may be");
        let few = HitReport { entries: hits.entries[..2].to_vec(), ..hits };
        frame = few.to_frame(7);
        frame.resize(60.max(frame.len()) + 20, 0);
        assert_eq!(HitReport::read(&frame, 7), Some(few), "what fills up a frame does not count");
    }
}
