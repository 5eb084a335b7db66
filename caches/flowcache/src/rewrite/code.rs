//! Native code ([`jit::rewrite`]) for frequent key masks and layouts. It has the semantics of
//! [`super::key`] and [`super::fast_executor`], with their constant loops unrolled.

use super::fast_executor::FastExecutor;
use super::form::WINDOW;
use super::key::{HashSecrets, KeyExtractor};
use super::layout::{FlowLayout, HEADER};
use super::row;
use jit::rewrite::{self, CompileError, HashCode, RowCode};

/// Packets before native code is compiled. Compilation takes about half a millisecond, so its cost
/// is at most half a microsecond for each of them.
pub const COMPILE_THRESHOLD: u32 = 1 << 10;

/// State of native code.
#[derive(Debug)]
pub enum CompiledCode<T> {
    /// Not compiled yet: number of packets that ran without it.
    Pending(u32),
    Compiled(Box<T>),
    /// Not supported for this object or machine.
    Unsupported,
}

impl<T> Default for CompiledCode<T> {
    fn default() -> CompiledCode<T> {
        CompiledCode::Pending(0)
    }
}

impl<T> CompiledCode<T> {
    /// Returns the native code, if compiled.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        match self {
            CompiledCode::Compiled(code) => Some(code),
            _ => None,
        }
    }

    /// Counts a packet without native code. Compiles it after `native_threshold` packets.
    pub fn count_without_code(
        &mut self,
        native_threshold: u32,
        make: impl FnOnce() -> Result<Option<T>, CompileError>,
    ) {
        let CompiledCode::Pending(packets) = self else { return };
        *packets += 1;
        if *packets >= native_threshold {
            *self =
                make().ok().flatten().map_or(CompiledCode::Unsupported, |code| CompiledCode::Compiled(Box::new(code)));
        }
    }
}

/// Compiles the hash function of a key mask.
pub fn hash_code(key_mask: u32, key: &KeyExtractor, secrets: &HashSecrets) -> Result<Option<HashCode>, CompileError> {
    HashCode::new(&key.to_native_key(), &rewrite::KeyHashSpec { shape: key_mask, secrets: secrets.pairs().to_vec() })
}

/// Compiles the match and rewrite of a layout's rows.
pub fn row_code(layout: &FlowLayout, key: &KeyExtractor) -> Result<Option<RowCode>, CompileError> {
    let FastExecutor { checks, .. } = &layout.executor;
    let checks = checks.iter().map(|check| rewrite::RequiredChecksum {
        words: check.sum.to_native_sum(),
        expected: check.expected,
        word: check.word.map(usize::from),
    });
    RowCode::new(&rewrite::FlowRowLayout {
        key: key.to_native_key(),
        bounds: row::LENGTHS,
        lead: HEADER,
        set: layout.set_bits,
        smalls: layout.small_numbers,
        sums: layout.sum_constants,
        checked: layout.check_constants,
        checks: checks.collect(),
        front: layout.header_rewrite.is_some().then(|| layout.executor.to_native_header()),
    })
}

const _: () = assert!(rewrite::HEADER_BUFFER_BYTES == WINDOW, "a new beginning is at most as long");

#[cfg(test)]
mod tests {
    use super::super::fast_executor::SharedHeaderRewrite;
    use super::super::form::{self, ChecksumCheck, KeyMask, PacketSum};
    use super::super::key::has_prefix;
    use super::super::row::{FlowRow, put_small_number, set_lengths};
    use super::super::window::{self, BLOCK, BLOCKS};
    use super::*;
    use fastrand::Rng;
    use io::guard_pages::{self, GuardSide};
    use jit::rewrite::RewriteOutcome;
    use packet::{Packet, PortId};

    fn sum(rng: &mut Rng) -> PacketSum {
        let place = |rng: &mut Rng| (rng.u16(..90), if rng.bool() { 0xffff } else { rng.u16(..) });
        let mut terms: Vec<(u16, u16)> = (0..rng.usize(..8)).map(|_| place(rng)).collect();
        // Adds sums over whole headers.
        let first = 2 * rng.u16(..30);
        terms.extend((0..rng.u16(..3) * 5).map(|word| (first + 2 * word, 0xffff)));
        PacketSum { constant: 0, lengths: rng.u32(..3), terms }
    }

    fn key_mask(rng: &mut Rng) -> KeyMask {
        let mut key_mask = KeyMask { mask: [0; WINDOW], end_relative_fields: Vec::new(), length: rng.bool() };
        let (first, end) = (rng.usize(..40), rng.usize(40..=100));
        key_mask.mask[first..end].iter_mut().for_each(|byte| *byte = [0, 0, 0xff, rng.u8(..)][rng.usize(..4)]);
        let mut at = rng.u16(..40);
        for _ in 0..rng.usize(..4) {
            key_mask.end_relative_fields.push(at);
            key_mask.mask[usize::from(at)..usize::from(at) + 2].fill(0);
            at += rng.u16(2..30);
        }
        key_mask
    }

    fn front(rng: &mut Rng) -> SharedHeaderRewrite {
        let len = rng.u16(2..=110);
        let grow = if rng.bool() { 0 } else { rng.i16(-100 + len as i16..=len as i16) };
        let mut keep = std::array::from_fn(|_| [0, 0xff, 0xff, rng.u8(..)][rng.usize(..4)]);
        keep[usize::from(len)..].fill(0);
        let lengths = (0..rng.usize(..4)).map(|_| rng.u16(..=len - 2)).collect();
        let sums = (0..rng.usize(..4)).map(|_| (rng.u16(..=len - 2), sum(rng), rng.bool())).collect();
        SharedHeaderRewrite { len_delta: grow, len, keep, lengths, sums }
    }

    fn layout(rng: &mut Rng, key: &KeyExtractor) -> FlowLayout {
        let front = (rng.u8(..8) != 0).then(|| Box::new(front(rng)));
        let check = |rng: &mut Rng| ChecksumCheck {
            sum: sum(rng),
            expected: rng.u16(..),
            word: rng.bool().then(|| rng.u16(..90)),
        };
        let checks: Vec<ChecksumCheck> = (0..rng.usize(..4)).map(|_| check(rng)).collect();
        let set = HEADER + key.len();
        let smalls = set + front.as_ref().map_or(0, |front| usize::from(front.len).div_ceil(8));
        let sums = 1 + front.as_ref().map_or(0, |front| front.lengths.len());
        let checked = sums + front.as_ref().map_or(0, |front| front.sums.len());
        let found = checked + checks.len();
        let words = smalls + found.div_ceil(2);
        let hot = FastExecutor::new(front.as_deref(), &checks);
        #[rustfmt::skip]
        let layout = FlowLayout {
            key_mask: 1, header_rewrite: front, checks, counter_updates: vec![], tallies: vec![], lookups: vec![],
            set_bits: set, small_numbers: smalls, sum_constants: sums, check_constants: checked, entries: found, generations: found,
            counter_indices: words, byte_differences: words, lookup_keys: words, words, executor: hot,
        };
        layout
    }

    /// Creates a row for the packet, with constants for which all checksums hold.
    fn row(rng: &mut Rng, layout: &mut FlowLayout, key: &KeyExtractor, packet: &Packet) -> Vec<u64> {
        let window = form::window(packet.bytes());
        let mut row = vec![0; layout.words];
        let mut words = [[0; BLOCK]; BLOCKS];
        row[HEADER] = key.extract_key(&window::window(&window), (packet.len(), packet.ingress_port.0), &mut words);
        row[HEADER + 1..layout.set_bits].copy_from_slice(&words.as_flattened()[..key.len() - 1]);
        set_lengths(&mut row, (rng.u32(..=packet.len() as u32), packet.len() as u32 + rng.u32(..100)));
        if let Some(front) = &layout.header_rewrite {
            let end = usize::from(front.len);
            let set: [u8; WINDOW] = std::array::from_fn(|at| if at < end { rng.u8(..) & !front.keep[at] } else { 0 });
            row[layout.set_bits..layout.small_numbers]
                .iter_mut()
                .zip(form::words(&set))
                .for_each(|(to, word)| *to = word);
        }
        (0..layout.entries).for_each(|at| put_small_number(&mut row[layout.small_numbers..], at, rng.u32(..)));
        for at in 0..layout.checks.len() {
            let constant = rng.u16(..);
            let place = layout.check_constants + at;
            let half = &mut row[layout.small_numbers + place / 2];
            *half &= !(0xffff_ffff << (32 * (place % 2)));
            put_small_number(&mut row[layout.small_numbers..], place, u32::from(constant));
            let check = &mut layout.checks[at];
            let found = check.word.map_or(0, |at| form::word(&window, usize::from(at)));
            check.expected = check.sum.sum_with(u64::from(constant), &window, packet.len()) ^ found;
        }
        layout.executor = FastExecutor::new(layout.header_rewrite.as_deref(), &layout.checks);
        row
    }

    /// Returns whether the packet is forwarded, and its bytes, computed without native code. `None`
    /// if the row does not apply.
    fn plain(row: FlowRow<'_>, key: &KeyExtractor, packet: &Packet) -> Option<(bool, Vec<u8>)> {
        let window = window::window(&form::window(packet.bytes()));
        let mut words = [[0; BLOCK]; BLOCKS];
        let lead = key.extract_key(&window, (packet.len(), packet.ingress_port.0), &mut words);
        let same = lead == row.key()[0] && has_prefix(&row.key()[1..], words.as_flattened());
        (same && row.can_apply(&window, packet.len())).then(|| {
            if row.layout.header_rewrite.is_none() {
                return (false, packet.bytes().to_vec());
            }
            let mut head = window::EMPTY;
            let (len, taken) = row.write_header(&window, packet.len(), &mut head);
            (true, [&head[..len], packet.bytes().get(taken..).unwrap_or_default()].concat())
        })
    }

    fn changed(rng: &mut Rng, packet: &Packet) -> Packet {
        let mut bytes = packet.bytes().to_vec();
        match rng.u8(..4) {
            0 => bytes.truncate(rng.usize(..=bytes.len())),
            1 => bytes.extend((0..rng.usize(1..120)).map(|_| rng.u8(..))),
            2 => {
                let at = rng.usize(..bytes.len().min(110));
                bytes[at] ^= 1 << rng.u8(..8);
            }
            _ => {}
        }
        let mut changed = Packet::new();
        let edge = if rng.bool() { GuardSide::Front } else { GuardSide::Back };
        guard_pages::fill_guarded(&mut changed, &bytes, edge).expect("there is memory");
        changed.ingress_port = PortId(packet.ingress_port.0 ^ u32::from(rng.u8(..16) == 0));
        changed
    }

    /// Native code equals plain Rust, for matching and other packets of all lengths, placed at
    /// guard pages.
    #[test]
    fn code_is_the_plain_form() {
        let seed = std::env::var("CODE_SEED").map_or(17, |seed| seed.parse().expect("a number"));
        println!("CODE_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let (mut hashed, mut others, mut there, mut apart, mut dropped) = (0, 0, 0, 0, 0);
        for _ in 0..600 {
            let (form, secrets) = (key_mask(&mut rng), HashSecrets::new());
            let key = KeyExtractor::new(&form);
            let bytes: Vec<u8> =
                (0..rng.usize(60..300)).map(|_| if rng.u8(..8) == 0 { 0 } else { rng.u8(..) }).collect();
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            packet.ingress_port = PortId(rng.u32(..));
            let mut layout = layout(&mut rng, &key);
            let words = row(&mut rng, &mut layout, &key, &packet);
            let row = FlowRow { layout: &layout, words: &words };
            let hash = hash_code(1, &key, &secrets).unwrap().expect("the machine has code");
            let code = row_code(&layout, &key).unwrap().expect("there is room");
            for round in 0..12 {
                let mut came =
                    if round == 0 { changed(&mut Rng::with_seed(3), &packet) } else { changed(&mut rng, &packet) };
                if let Some(hash) = hash.hash(&mut came) {
                    let mut words = [[0; BLOCK]; BLOCKS];
                    let arrived = (came.len(), came.ingress_port.0);
                    let lead = key.extract_key(&window::window(&form::window(came.bytes())), arrived, &mut words);
                    assert_eq!(hash, secrets.hash_key(1, lead, &words.as_flattened()[..key.len() - 1]), "{form:?}");
                    hashed += 1;
                }
                let expected = plain(row, &key, &came).filter(|_| came.len() >= code.depth());
                let mut head = [0; rewrite::HEADER_BUFFER_BYTES];
                let before = came.bytes().to_vec();
                let done = code.apply(&words, &mut came, &mut head).decode();
                let got = match done {
                    RewriteOutcome::NotApplied => None,
                    RewriteOutcome::InPlace(fate) => {
                        there += 1;
                        Some((true, came.bytes().to_vec(), fate))
                    }
                    RewriteOutcome::Separate(fate) => {
                        apart += 1;
                        let (len, taken) = layout.executor.header_lengths();
                        came.replace_front(taken, &head[..len]).unwrap();
                        Some((true, came.bytes().to_vec(), fate))
                    }
                    RewriteOutcome::Dropped(fate) => {
                        dropped += 1;
                        Some((false, came.bytes().to_vec(), fate))
                    }
                };
                assert!(got.is_some() || came.bytes() == before, "whose row it is not is as it was");
                others += u32::from(got.is_none());
                assert_eq!(
                    got,
                    expected.map(|(leaves, bytes)| (leaves, bytes, row.port_or_reason())),
                    "{form:?} {layout:?}"
                );
            }
        }
        let all = (hashed, others, there, apart, dropped);
        assert!(hashed > 4_000 && others > 500 && there > 500 && apart > 500 && dropped > 100, "{all:?}");
    }
}
