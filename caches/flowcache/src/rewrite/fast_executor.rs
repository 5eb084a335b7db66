//! Fast execution of rewrites in words of 64 bits, compiled once for all rewrites of a path.
//! [`super::form`] defines the semantics.
//!
//! No code here checks bounds explicitly, because offsets are bytes, and a window is longer.

use super::form::{ChecksumCheck, PacketSum, WINDOW};
use super::window::{PacketWindow, rotate_bytes, word};
use jit::rewrite;

/// Shared part of a header rewrite ([`form::NewHeader`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedHeaderRewrite {
    pub len_delta: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    /// Offsets of length fields.
    pub lengths: Vec<u16>,
    /// Offset of each checksum, its sum without constant, and whether it is complemented.
    pub sums: Vec<(u16, PacketSum, bool)>,
}

/// Offset of the last word in the window.
const LAST_WORD: u8 = (WINDOW - 8) as u8;

/// Loads eight bytes in host order.
#[inline]
fn load_word(window: &PacketWindow, at: u8) -> u64 {
    let bytes = &window[usize::from(at)..usize::from(at) + 8];
    u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte]))
}

/// Adds in one's complement: the carry is added at the low end.
#[inline]
fn add_ones_complement(sum: u64, more: u64) -> u64 {
    let (sum, over) = sum.overflowing_add(more);
    sum + u64::from(over)
}

/// Folds a 64-bit one's complement sum to 16 bits, with the result of [`super::form`].
#[inline]
fn fold_to_16(sum: u64) -> u16 {
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
}

/// A [`PacketSum`] without its constant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SumWords {
    lengths: u32,
    /// Offset of each group of eight bytes, and its mask.
    words: Vec<(u8, u64)>,
}

impl SumWords {
    /// Groups the terms of a sum into masked words of eight bytes, so that one operation adds up to
    /// four terms.
    fn new(sum: &PacketSum) -> SumWords {
        let mut terms = sum.terms.clone();
        terms.sort_unstable();
        let mut words: Vec<(u8, [u8; 8])> = Vec::new();
        for (at, mask) in terms {
            let [high, low] = mask.to_be_bytes();
            // 16-bit words at even offsets of a 64-bit word are added with one operation.
            let free_bytes = words.last_mut().and_then(|(first, bits)| {
                let byte_offset = usize::from(at - u16::from(*first));
                let target = bits.get_mut(byte_offset..byte_offset + 2)?;
                (byte_offset.is_multiple_of(2) && target[0] & high == 0 && target[1] & low == 0).then_some(target)
            });
            match free_bytes {
                Some(target) => (target[0], target[1]) = (target[0] | high, target[1] | low),
                None => {
                    // The word lies within the window, at an offset of the same parity.
                    let first = at.min(u16::from(LAST_WORD) - at % 2) as u8;
                    let mut bits = [0; 8];
                    let byte_offset = usize::from(at - u16::from(first));
                    (bits[byte_offset], bits[byte_offset + 1]) = (high, low);
                    words.push((first, bits));
                }
            }
        }
        let words = words.into_iter().map(|(at, bits)| (at, u64::from_ne_bytes(bits))).collect();
        SumWords { lengths: sum.lengths, words }
    }

    /// Returns the description for native code, as words of four bytes, because their sums cannot
    /// overflow.
    pub fn to_native_sum(&self) -> rewrite::ChecksumTerms {
        let halves = |(at, bits): &(u8, u64)| {
            let at = usize::from(*at);
            [(at, *bits as u32), (at + 4, (*bits >> 32) as u32)].into_iter().filter(|(_, bits)| *bits != 0)
        };
        rewrite::ChecksumTerms { lengths: self.lengths, terms: self.words.iter().flat_map(halves).collect() }
    }

    /// Computes [`PacketSum::of`] with a folded constant.
    #[inline]
    fn sum_of(&self, constant: u32, window: &PacketWindow, length: usize) -> u16 {
        // The byte order does not change a one's complement sum (RFC 1071, section 2 B).
        let constant_word = u64::from((constant as u16).to_be());
        let mut sum = self
            .words
            .iter()
            .fold(constant_word, |sum, (at, mask)| add_ones_complement(sum, load_word(window, *at) & mask));
        if self.lengths != 0 {
            sum = add_ones_complement(sum, u64::from(fold_to_16(u64::from(self.lengths) * length as u64).to_be()));
        }
        u16::from_be(fold_to_16(sum))
    }
}

/// A [`ChecksumCheck`] in words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FastCheck {
    pub sum: SumWords,
    pub expected: u16,
    pub word: Option<u8>,
}

/// Packet bytes that the new header keeps, for one of its words.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct KeptWord {
    /// Index of the word.
    to: u8,
    /// Load offset, and the rotation to the word in bytes.
    from: u8,
    places: u32,
    keep: u64,
}

/// Executor of the rewrites of a path. The parts that differ between rows are passed as 32-bit
/// numbers: constants of sums, and differences of lengths.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct FastExecutor {
    pub(super) checks: Vec<FastCheck>,
    kept: Vec<KeptWord>,
    /// If the length of the header is unchanged: mask of the kept bits of its words, including the
    /// bits after its end.
    kept_in_place: Option<Vec<[u64; 2]>>,
    /// Offsets of length fields.
    lengths: Vec<u8>,
    sums: Vec<(u8, SumWords, u16)>,
    len: usize,
    replaced_bytes: usize,
}

impl FastExecutor {
    /// Creates an executor of a header rewrite (`None`: drop) and of checks.
    pub fn new(header: Option<&SharedHeaderRewrite>, checks: &[ChecksumCheck]) -> FastExecutor {
        let word = |check: &ChecksumCheck| check.word.map(|at| at as u8);
        let check = |check: &ChecksumCheck| FastCheck {
            sum: SumWords::new(&check.sum),
            expected: check.expected,
            word: word(check),
        };
        let checks = checks.iter().map(check).collect();
        let Some(header) = header else { return FastExecutor { checks, ..FastExecutor::default() } };
        let sum = |(at, sum, complement): &(u16, PacketSum, bool)| {
            (*at as u8, SumWords::new(sum), if *complement { 0xffff } else { 0 })
        };
        let len = usize::from(header.len);
        let kept_in_place = || {
            let mut keep = header.keep;
            // Bytes after the header stay as they are.
            keep[len..].fill(0xff);
            // In place, 16 bytes are rewritten at once.
            let pairs = keep.as_chunks::<16>().0.iter().take(len.div_ceil(16));
            pairs.map(|bytes| [0, 1].map(|at| u64::from_ne_bytes(bytes.as_chunks::<8>().0[at]))).collect()
        };
        FastExecutor {
            checks,
            kept: kept_words(header),
            kept_in_place: (header.len_delta == 0).then(kept_in_place),
            lengths: header.lengths.iter().map(|at| *at as u8).collect(),
            sums: header.sums.iter().map(sum).collect(),
            len,
            replaced_bytes: (len as isize - isize::from(header.len_delta)).max(0) as usize,
        }
    }

    /// Returns the description of the header rewrite for native code.
    pub fn to_native_header(&self) -> rewrite::HeaderRewrite {
        let moved = |kept: &KeptWord| rewrite::CopiedWord {
            to: usize::from(kept.to),
            from: usize::from(kept.from),
            places: kept.places,
            keep: kept.keep,
        };
        let words = self.len.div_ceil(8);
        let place = match &self.kept_in_place {
            Some(masks) => rewrite::RewriteTarget::InPlace(masks.as_flattened()[..words].to_vec()),
            None => rewrite::RewriteTarget::Separate(self.kept.iter().map(moved).collect()),
        };
        let sums =
            self.sums.iter().map(|(at, words, complement)| (usize::from(*at), words.to_native_sum(), *complement != 0));
        let lengths = self.lengths.iter().map(|at| usize::from(*at)).collect();
        rewrite::HeaderRewrite { len: self.len, place, lengths, sums: sums.collect() }
    }

    /// Returns the length of the new header, and of the bytes that it replaces.
    #[inline]
    pub fn header_lengths(&self) -> (usize, usize) {
        (self.len, self.replaced_bytes)
    }

    /// Returns whether all checksums hold. `constant` returns the constant of each.
    #[inline]
    pub fn checks_hold(&self, constant: impl Fn(usize) -> u32, window: &PacketWindow, length: usize) -> bool {
        self.checks.iter().enumerate().all(|(at, check)| {
            let word = check.word.map_or(0, |at| word(window, at));
            check.sum.sum_of(constant(at), window, length) == check.expected ^ word
        })
    }

    /// Writes the new header of a packet with this window and length to `head`. `set` are the bits
    /// that do not come from the packet. `small` returns the row's 32-bit numbers by index; the
    /// number beside it is the index of the first constant of a sum. Returns the header's length,
    /// and that of the bytes that it replaces.
    #[inline]
    pub fn write_header(
        &self,
        set: &[u64],
        small: (impl Fn(usize) -> u32, usize),
        (window, length): (&PacketWindow, usize),
        head: &mut PacketWindow,
    ) -> (usize, usize) {
        let words = head.as_chunks_mut::<8>().0;
        words.iter_mut().zip(set).for_each(|(to, set)| *to = set.to_ne_bytes());
        for KeptWord { to, from, places, keep } in &self.kept {
            let kept = rotate_bytes(load_word(window, *from), *places) & keep;
            let to = &mut words[usize::from(*to) % (WINDOW / 8)];
            *to = (u64::from_ne_bytes(*to) | kept).to_ne_bytes();
        }
        self.write_lengths_and_sums(small, (window, length), head);
        (self.len, self.replaced_bytes)
    }

    /// Rewrites the packet in place. Returns false if the header's length changes or the packet is
    /// too short. `window` has the packet's original bytes. `set` and `small` are those of
    /// [`FastExecutor::write_header`].
    #[inline]
    pub fn rewrite_in_place(
        &self,
        set: &[u64],
        small: (impl Fn(usize) -> u32, usize),
        window: &PacketWindow,
        bytes: &mut [u8],
    ) -> bool {
        let Some(masks) = &self.kept_in_place else { return false };
        let length = bytes.len();
        let Some(blocks) = bytes.as_chunks_mut::<16>().0.get_mut(..masks.len()) else { return false };
        let (pairs, odd_word) = set.as_chunks::<2>();
        let write = |to: &mut [u8; 16], kept: &[u64; 2], set: &[u64; 2]| {
            let words = to.as_chunks_mut::<8>().0;
            for at in 0..2 {
                words[at] = (u64::from_ne_bytes(words[at]) & kept[at] | set[at]).to_ne_bytes();
            }
        };
        blocks.iter_mut().zip(masks).zip(pairs).for_each(|((to, kept), set)| write(to, kept, set));
        // A header of an odd number of words ends with half a block.
        if let ([last], Some(to), Some(kept)) = (odd_word, blocks.last_mut(), masks.last()) {
            write(to, kept, &[*last, 0]);
        }
        self.write_lengths_and_sums(small, (window, length), bytes);
        true
    }

    /// Writes lengths and checksums.
    #[inline]
    fn write_lengths_and_sums(
        &self,
        (small, sums): (impl Fn(usize) -> u32, usize),
        (window, length): (&PacketWindow, usize),
        head: &mut [u8],
    ) {
        let mut put = |at: u8, value: u16| {
            if let Some(to) = head.get_mut(usize::from(at)..usize::from(at) + 2) {
                to.copy_from_slice(&value.to_be_bytes());
            }
        };
        for (at, place) in self.lengths.iter().enumerate() {
            put(*place, (length as i64 + i64::from(small(1 + at) as i32)) as u16);
        }
        for (at, (place, sum, complement)) in self.sums.iter().enumerate() {
            put(*place, sum.sum_of(small(sums + at), window, length) ^ complement);
        }
    }
}

/// Returns the kept bytes of each word of the new header; no element for a word without them.
fn kept_words(header: &SharedHeaderRewrite) -> Vec<KeptWord> {
    let mut kept = Vec::new();
    for (to, keep) in header.keep.chunks(8).enumerate().take(usize::from(header.len).div_ceil(8)) {
        let from = 8 * to as isize - isize::from(header.len_delta);
        let first = from.clamp(0, isize::from(LAST_WORD));
        // Bytes outside of the window are 0.
        let is_in_window = |place: usize| (0..WINDOW as isize).contains(&(from + place as isize));
        let bits: [u8; 8] = std::array::from_fn(|place| if is_in_window(place) { keep[place] } else { 0 });
        let keep = u64::from_ne_bytes(bits);
        if keep != 0 {
            kept.push(KeptWord { to: to as u8, from: first as u8, places: (first - from).rem_euclid(8) as u32, keep });
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::super::form;
    use super::super::window;
    use super::*;

    /// Compares with the plain definition: sums of words at any offset, at the end of the window,
    /// with duplicates; constants of 0.
    #[test]
    fn words_of_64_bits_mean_what_bytes_do() {
        let mut rng = fastrand::Rng::with_seed(11);
        let (mut joined, mut zero) = (0, 0);
        for round in 0..20_000 {
            let mut window = [0; WINDOW];
            if round % 16 != 0 {
                rng.fill(&mut window);
            }
            let near = rng.u16(..=WINDOW as u16 - 2);
            let place = |rng: &mut fastrand::Rng| match rng.bool() {
                true => (near / 2 * 2 + rng.u16(..14)).min(WINDOW as u16 - 2),
                false => rng.u16(..=WINDOW as u16 - 2),
            };
            let mask = |rng: &mut fastrand::Rng| if rng.bool() { 0xffff } else { rng.u16(..) };
            let terms: Vec<(u16, u16)> = (0..rng.usize(..12)).map(|_| (place(&mut rng), mask(&mut rng))).collect();
            let sum = PacketSum { constant: 0, lengths: rng.u32(..3), terms };
            let (words, length) = (SumWords::new(&sum), rng.usize(..9_000));
            let constant = if rng.u8(..4) == 0 { 0 } else { u32::from(rng.u16(..)) };
            let plain = sum.sum_with(u64::from(constant), &window, length);
            assert_eq!(words.sum_of(constant, &window::window(&window), length), plain, "{sum:?} {words:?}");
            joined += sum.terms.len() - words.words.len();
            zero += u32::from(plain == 0);
        }
        assert!(joined > 10_000 && zero > 50, "{joined} {zero}");
    }

    /// Compares with [`form::NewHeader`].
    #[test]
    fn a_new_beginning_is_the_same() {
        let mut rng = fastrand::Rng::with_seed(12);
        let (mut kept, mut stayed) = (0, 0);
        for _ in 0..20_000 {
            let len = rng.u16(2..=WINDOW as u16);
            let grow = if rng.u8(..4) == 0 { 0 } else { rng.i16(-(WINDOW as i16) + len as i16..=len as i16) };
            let mut keep: [u8; WINDOW] = std::array::from_fn(|_| [0, 0xff, 0xff, rng.u8(..)][rng.usize(..4)]);
            keep[usize::from(len)..].fill(0);
            let set: [u8; WINDOW] =
                std::array::from_fn(|at| if at < usize::from(len) { rng.u8(..) & !keep[at] } else { 0 });
            let at = rng.u16(..=len - 2);
            let sum = PacketSum { constant: u64::from(rng.u16(..)), lengths: 1, terms: vec![(rng.u16(..200), 0xffff)] };
            let bytes: Vec<u8> = (0..rng.usize(1..400)).map(|_| rng.u8(..)).collect();
            let sums = vec![(at, sum, rng.bool())];
            let front = SharedHeaderRewrite { len_delta: grow, len, keep, lengths: vec![at / 2], sums: sums.clone() };
            let plain = form::NewHeader {
                len_delta: grow,
                len,
                keep_mask: keep,
                set_bytes: set,
                lengths: vec![(at / 2, -7)],
                sums,
            };
            let (hot, window) = (FastExecutor::new(Some(&front), &[]), window::window(&form::window(&bytes)));
            let words: Vec<u64> = form::words(&set).take(usize::from(len).div_ceil(8)).collect();
            let small = |at: usize| if at == 1 { -7i32 as u32 } else { plain.sums[0].1.constant as u32 };
            let mut head = [0xee; window::ROOM];
            let (count, taken) = hot.write_header(&words, (small, 2), (&window, bytes.len()), &mut head);
            let mut there = bytes.clone();
            let in_place = hot.rewrite_in_place(&words, (small, 2), &window, &mut there);
            let mut out = head[..count].to_vec();
            out.extend_from_slice(bytes.get(taken..).unwrap_or_default());
            let mut expected = Vec::new();
            plain.write_packet(&bytes, &mut expected);
            assert_eq!(out, expected, "{front:?}");
            if in_place {
                assert_eq!(there, expected, "{front:?}");
            }
            (kept, stayed) = (kept + hot.kept.len(), stayed + u32::from(in_place));
        }
        assert!(kept > 100_000 && stayed > 1_000, "{kept} {stayed}");
    }
}
