//! What a packet that hits has done to it, in words of 64 bits: made once of what the rewrites of a way share, as hundreds of thousands of flows go through it each second.
//! The meaning is [`super::form`]'s.
//!
//! Nothing here asks whether it is within bounds: places are bytes, and a window is longer.

use super::form::{Check, Sum, WINDOW};
use super::window::{Window, moved, word};
use jit::rewrite;

/// What is shared of a packet's new beginning. See [`form::Head`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Front {
    pub grow: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    /// Where lengths are written.
    pub lengths: Vec<u16>,
    /// Where sums are, without their constants; complemented or not.
    pub sums: Vec<(u16, Sum, bool)>,
}

/// Where the last word of a packet's first bytes begins.
const LAST: u8 = (WINDOW - 8) as u8;

/// The eight bytes from there on, in the machine's order.
#[inline]
fn load(window: &Window, at: u8) -> u64 {
    let bytes = &window[usize::from(at)..usize::from(at) + 8];
    u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte]))
}

/// Adds in one's complement: what falls off at the top comes in at the bottom.
#[inline]
fn plus(sum: u64, more: u64) -> u64 {
    let (sum, over) = sum.overflowing_add(more);
    sum + u64::from(over)
}

/// Folds a sum of words of 64 bits to 16, as [`super::form`] does: half upon half, each time with what falls off.
#[inline]
fn fold(sum: u64) -> u16 {
    let half = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
}

/// A [`Sum`] without its constant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Words {
    lengths: u32,
    /// Where eight bytes begin, and their bits.
    words: Vec<(u8, u64)>,
}

impl Words {
    fn new(sum: &Sum) -> Words {
        let mut terms = sum.terms.clone();
        terms.sort_unstable();
        let mut words: Vec<(u8, [u8; 8])> = Vec::new();
        for (at, mask) in terms {
            let [high, low] = mask.to_be_bytes();
            // Words of 16 bits lie at even places of those of 64, so that all of them are added at once.
            let joins = words.last_mut().and_then(|(first, bits)| {
                let place = usize::from(at - u16::from(*first));
                let room = bits.get_mut(place..place + 2)?;
                (place.is_multiple_of(2) && room[0] & high == 0 && room[1] & low == 0).then_some(room)
            });
            match joins {
                Some(room) => (room[0], room[1]) = (room[0] | high, room[1] | low),
                None => {
                    let first = at.min(u16::from(LAST) - at % 2) as u8;
                    let mut bits = [0; 8];
                    let place = usize::from(at - u16::from(first));
                    (bits[place], bits[place + 1]) = (high, low);
                    words.push((first, bits));
                }
            }
        }
        let words = words.into_iter().map(|(at, bits)| (at, u64::from_ne_bytes(bits))).collect();
        Words { lengths: sum.lengths, words }
    }

    /// The same, as native code has it: words of four bytes, of which no sum falls over.
    pub fn plan(&self) -> rewrite::Words {
        let halves = |(at, bits): &(u8, u64)| {
            let at = usize::from(*at);
            [(at, *bits as u32), (at + 4, (*bits >> 32) as u32)].into_iter().filter(|(_, bits)| *bits != 0)
        };
        rewrite::Words { lengths: self.lengths, terms: self.words.iter().flat_map(halves).collect() }
    }

    /// [`Sum::of`] with that constant, which is folded.
    #[inline]
    fn of(&self, constant: u32, window: &Window, length: usize) -> u16 {
        // The order of bytes makes no difference to a one's complement sum (RFC 1071, section 2 B).
        let known = u64::from((constant as u16).to_be());
        let mut sum = self.words.iter().fold(known, |sum, (at, mask)| plus(sum, load(window, *at) & mask));
        if self.lengths != 0 {
            sum = plus(sum, u64::from(fold(u64::from(self.lengths) * length as u64).to_be()));
        }
        u16::from_be(fold(sum))
    }
}

/// A [`Check`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tested {
    pub sum: Words,
    pub expected: u16,
    pub word: Option<u8>,
}

/// Bytes of a packet's new beginning that stay what they are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Kept {
    /// Which of its words.
    to: u8,
    /// Where they are loaded from, and how many places on they lie in that word.
    from: u8,
    places: u32,
    keep: u64,
}

/// See the module. What differs from row to row comes as small numbers: constants of sums, and what is added to lengths.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hot {
    pub(super) checks: Vec<Tested>,
    kept: Vec<Kept>,
    /// If the new beginning is as long as the old one: the bits of its words that stay, those behind its end among them.
    stays: Option<Vec<[u64; 2]>>,
    /// Where lengths are written.
    lengths: Vec<u8>,
    sums: Vec<(u8, Words, u16)>,
    len: usize,
    taken: usize,
}

impl Hot {
    /// Of a new beginning, if there is one, and of checks.
    pub fn new(front: Option<&Front>, checks: &[Check]) -> Hot {
        let word = |check: &Check| check.word.map(|at| at as u8);
        let check = |check: &Check| Tested { sum: Words::new(&check.sum), expected: check.expected, word: word(check) };
        let checks = checks.iter().map(check).collect();
        let Some(front) = front else { return Hot { checks, ..Hot::default() } };
        let sum = |(at, sum, complement): &(u16, Sum, bool)| {
            (*at as u8, Words::new(sum), if *complement { 0xffff } else { 0 })
        };
        let len = usize::from(front.len);
        let stays = || {
            let mut keep = front.keep;
            keep[len..].fill(0xff);
            let pairs = keep.as_chunks::<16>().0.iter().take(len.div_ceil(16));
            pairs.map(|bytes| [0, 1].map(|at| u64::from_ne_bytes(bytes.as_chunks::<8>().0[at]))).collect()
        };
        Hot {
            checks,
            kept: kept(front),
            stays: (front.grow == 0).then(stays),
            lengths: front.lengths.iter().map(|at| *at as u8).collect(),
            sums: front.sums.iter().map(sum).collect(),
            len,
            taken: (len as isize - isize::from(front.grow)).max(0) as usize,
        }
    }

    /// The new beginning, as native code has it.
    pub fn plan(&self) -> rewrite::Front {
        let moved = |kept: &Kept| rewrite::Moved {
            to: usize::from(kept.to),
            from: usize::from(kept.from),
            places: kept.places,
            keep: kept.keep,
        };
        let words = self.len.div_ceil(8);
        let place = match &self.stays {
            Some(stays) => rewrite::Place::There(stays.as_flattened()[..words].to_vec()),
            None => rewrite::Place::Apart(self.kept.iter().map(moved).collect()),
        };
        let sums = self.sums.iter().map(|(at, words, complement)| (usize::from(*at), words.plan(), *complement != 0));
        let lengths = self.lengths.iter().map(|at| usize::from(*at)).collect();
        rewrite::Front { len: self.len, place, lengths, sums: sums.collect() }
    }

    /// Bytes of a new beginning, and how many go for them.
    #[inline]
    pub fn lengths(&self) -> (usize, usize) {
        (self.len, self.taken)
    }

    /// Whether all sums are what they must be; `constant` has that of each.
    #[inline]
    pub fn passes(&self, constant: impl Fn(usize) -> u32, window: &Window, length: usize) -> bool {
        self.checks.iter().enumerate().all(|(at, check)| {
            let word = check.word.map_or(0, |at| word(window, at));
            check.sum.of(constant(at), window, length) == check.expected ^ word
        })
    }

    /// Writes the new beginning of a packet with that window and length: what `head` begins with, whose other bits are `set`. How many bytes it has, and how many go for them.
    #[inline]
    pub fn write(
        &self,
        set: &[u64],
        small: (impl Fn(usize) -> u32, usize),
        (window, length): (&Window, usize),
        head: &mut Window,
    ) -> (usize, usize) {
        let words = head.as_chunks_mut::<8>().0;
        words.iter_mut().zip(set).for_each(|(to, set)| *to = set.to_ne_bytes());
        for Kept { to, from, places, keep } in &self.kept {
            let kept = moved(load(window, *from), *places) & keep;
            let to = &mut words[usize::from(*to) % (WINDOW / 8)];
            *to = (u64::from_ne_bytes(*to) | kept).to_ne_bytes();
        }
        self.finish(small, (window, length), head);
        (self.len, self.taken)
    }

    /// The same where the packet lies, if its beginning stays as long as it is and the packet is not too short: whether it was. The window is as the packet came.
    #[inline]
    pub fn write_in_place(
        &self,
        set: &[u64],
        small: (impl Fn(usize) -> u32, usize),
        window: &Window,
        bytes: &mut [u8],
    ) -> bool {
        let Some(stays) = &self.stays else { return false };
        let length = bytes.len();
        let Some(blocks) = bytes.as_chunks_mut::<16>().0.get_mut(..stays.len()) else { return false };
        let (pairs, rest) = set.as_chunks::<2>();
        let write = |to: &mut [u8; 16], stays: &[u64; 2], set: &[u64; 2]| {
            let words = to.as_chunks_mut::<8>().0;
            for at in 0..2 {
                words[at] = (u64::from_ne_bytes(words[at]) & stays[at] | set[at]).to_ne_bytes();
            }
        };
        blocks.iter_mut().zip(stays).zip(pairs).for_each(|((to, stays), set)| write(to, stays, set));
        if let ([last], Some(to), Some(stays)) = (rest, blocks.last_mut(), stays.last()) {
            write(to, stays, &[*last, 0]);
        }
        self.finish(small, (window, length), bytes);
        true
    }

    /// Lengths and sums.
    #[inline]
    fn finish(
        &self,
        (small, sums): (impl Fn(usize) -> u32, usize),
        (window, length): (&Window, usize),
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
            put(*place, sum.of(small(sums + at), window, length) ^ complement);
        }
    }
}

/// Which bytes of a new beginning stay, by its words.
fn kept(front: &Front) -> Vec<Kept> {
    let mut all = Vec::new();
    for (to, keep) in front.keep.chunks(8).enumerate().take(usize::from(front.len).div_ceil(8)) {
        let from = 8 * to as isize - isize::from(front.grow);
        let first = from.clamp(0, isize::from(LAST));
        // What lies outside of the window is 0.
        let inside = |place: usize| (0..WINDOW as isize).contains(&(from + place as isize));
        let bits: [u8; 8] = std::array::from_fn(|place| if inside(place) { keep[place] } else { 0 });
        let keep = u64::from_ne_bytes(bits);
        if keep != 0 {
            all.push(Kept { to: to as u8, from: first as u8, places: (first - from).rem_euclid(8) as u32, keep });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::form;
    use super::super::window;
    use super::*;

    /// As the plain meaning: sums of words anywhere, at the end of the window too, some of them twice; bytes moved to and fro.
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
            let sum = Sum { constant: 0, lengths: rng.u32(..3), terms };
            let (words, length) = (Words::new(&sum), rng.usize(..9_000));
            let constant = if rng.u8(..4) == 0 { 0 } else { u32::from(rng.u16(..)) };
            let plain = sum.with(u64::from(constant), &window, length);
            assert_eq!(words.of(constant, &window::window(&window), length), plain, "{sum:?} {words:?}");
            joined += sum.terms.len() - words.words.len();
            zero += u32::from(plain == 0);
        }
        assert!(joined > 10_000 && zero > 50, "{joined} {zero}");
    }

    /// As [`form::Head`] writes.
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
            let sum = Sum { constant: u64::from(rng.u16(..)), lengths: 1, terms: vec![(rng.u16(..200), 0xffff)] };
            let bytes: Vec<u8> = (0..rng.usize(1..400)).map(|_| rng.u8(..)).collect();
            let sums = vec![(at, sum, rng.bool())];
            let front = Front { grow, len, keep, lengths: vec![at / 2], sums: sums.clone() };
            let plain = form::Head { grow, len, keep, set, lengths: vec![(at / 2, -7)], sums };
            let (hot, window) = (Hot::new(Some(&front), &[]), window::window(&form::window(&bytes)));
            let words: Vec<u64> = form::words(&set).take(usize::from(len).div_ceil(8)).collect();
            let small = |at: usize| if at == 1 { -7i32 as u32 } else { plain.sums[0].1.constant as u32 };
            let mut head = [0xee; window::ROOM];
            let (count, taken) = hot.write(&words, (small, 2), (&window, bytes.len()), &mut head);
            let mut there = bytes.clone();
            let in_place = hot.write_in_place(&words, (small, 2), &window, &mut there);
            let mut out = head[..count].to_vec();
            out.extend_from_slice(bytes.get(taken..).unwrap_or_default());
            let mut expected = Vec::new();
            plain.write(&bytes, &mut expected);
            assert_eq!(out, expected, "{front:?}");
            if in_place {
                assert_eq!(there, expected, "{front:?}");
            }
            (kept, stayed) = (kept + hot.kept.len(), stayed + u32::from(in_place));
        }
        assert!(kept > 100_000 && stayed > 1_000, "{kept} {stayed}");
    }
}
