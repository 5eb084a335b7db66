//! Native code ([`jit::rewrite`]) for shapes and layouts whose packets come often: what [`super::key`] and [`super::hot`] do, without loops over what is the same for all.

use super::form::WINDOW;
use super::hot::Hot;
use super::key::{KeyForm, Secrets};
use super::layout::{HEADER, Layout};
use super::row;
use jit::rewrite::{self, CompileError, HashCode, RowCode};

/// Packets that go without before code is made, which takes some half a millisecond: so it never takes more than half a microsecond of each of them, whoever sends them.
pub const OFTEN: u32 = 1 << 10;

/// Native code that there is, or may be.
#[derive(Debug)]
pub enum Native<T> {
    /// So many packets have gone without.
    After(u32),
    Made(Box<T>),
    /// There is none for this, or on this machine.
    Never,
}

impl<T> Default for Native<T> {
    fn default() -> Native<T> {
        Native::After(0)
    }
}

impl<T> Native<T> {
    /// If there is some.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        match self {
            Native::Made(code) => Some(code),
            _ => None,
        }
    }

    /// Another packet went without: after so many of them it is made.
    pub fn went_without(&mut self, often: u32, make: impl FnOnce() -> Result<Option<T>, CompileError>) {
        let Native::After(packets) = self else { return };
        *packets += 1;
        if *packets >= often {
            *self = make().ok().flatten().map_or(Native::Never, |code| Native::Made(Box::new(code)));
        }
    }
}

/// Code that hashes keys of that form.
pub fn hash_code(shape: u32, key: &KeyForm, secrets: &Secrets) -> Result<Option<HashCode>, CompileError> {
    HashCode::new(&key.plan(), &rewrite::Hashing { shape, secrets: secrets.pairs().to_vec() })
}

/// Code that applies rows of that layout, whose keys have that form.
pub fn row_code(layout: &Layout, key: &KeyForm) -> Result<Option<RowCode>, CompileError> {
    let Hot { checks, .. } = &layout.hot;
    let checks = checks.iter().map(|check| rewrite::Check {
        words: check.sum.plan(),
        expected: check.expected,
        word: check.word.map(usize::from),
    });
    RowCode::new(&rewrite::Row {
        key: key.plan(),
        bounds: row::LENGTHS,
        lead: HEADER,
        set: layout.set,
        smalls: layout.smalls,
        sums: layout.sums,
        checked: layout.checked,
        checks: checks.collect(),
        front: layout.front.is_some().then(|| layout.hot.plan()),
    })
}

const _: () = assert!(rewrite::HEAD == WINDOW, "a new beginning is at most as long");

#[cfg(test)]
mod tests {
    use super::super::form::{self, Check, Shape, Sum};
    use super::super::hot::Front;
    use super::super::key::begins;
    use super::super::row::{Row, put, set_lengths};
    use super::super::window::{self, BLOCK, BLOCKS};
    use super::*;
    use fastrand::Rng;
    use io::guarded::{self, Edge};
    use jit::rewrite::Told;
    use packet::{Packet, PortId};

    fn sum(rng: &mut Rng) -> Sum {
        let place = |rng: &mut Rng| (rng.u16(..90), if rng.bool() { 0xffff } else { rng.u16(..) });
        let mut terms: Vec<(u16, u16)> = (0..rng.usize(..8)).map(|_| place(rng)).collect();
        // Whole headers, too.
        let first = 2 * rng.u16(..30);
        terms.extend((0..rng.u16(..3) * 5).map(|word| (first + 2 * word, 0xffff)));
        Sum { constant: 0, lengths: rng.u32(..3), terms }
    }

    fn shape(rng: &mut Rng) -> Shape {
        let mut shape = Shape { mask: [0; WINDOW], near: Vec::new(), length: rng.bool() };
        let (first, end) = (rng.usize(..40), rng.usize(40..=100));
        shape.mask[first..end].iter_mut().for_each(|byte| *byte = [0, 0, 0xff, rng.u8(..)][rng.usize(..4)]);
        let mut at = rng.u16(..40);
        for _ in 0..rng.usize(..4) {
            shape.near.push(at);
            shape.mask[usize::from(at)..usize::from(at) + 2].fill(0);
            at += rng.u16(2..30);
        }
        shape
    }

    fn front(rng: &mut Rng) -> Front {
        let len = rng.u16(2..=110);
        let grow = if rng.bool() { 0 } else { rng.i16(-100 + len as i16..=len as i16) };
        let mut keep = std::array::from_fn(|_| [0, 0xff, 0xff, rng.u8(..)][rng.usize(..4)]);
        keep[usize::from(len)..].fill(0);
        let lengths = (0..rng.usize(..4)).map(|_| rng.u16(..=len - 2)).collect();
        let sums = (0..rng.usize(..4)).map(|_| (rng.u16(..=len - 2), sum(rng), rng.bool())).collect();
        Front { grow, len, keep, lengths, sums }
    }

    fn layout(rng: &mut Rng, key: &KeyForm) -> Layout {
        let front = (rng.u8(..8) != 0).then(|| Box::new(front(rng)));
        let check =
            |rng: &mut Rng| Check { sum: sum(rng), expected: rng.u16(..), word: rng.bool().then(|| rng.u16(..90)) };
        let checks: Vec<Check> = (0..rng.usize(..4)).map(|_| check(rng)).collect();
        let set = HEADER + key.len();
        let smalls = set + front.as_ref().map_or(0, |front| usize::from(front.len).div_ceil(8));
        let sums = 1 + front.as_ref().map_or(0, |front| front.lengths.len());
        let checked = sums + front.as_ref().map_or(0, |front| front.sums.len());
        let found = checked + checks.len();
        let words = smalls + found.div_ceil(2);
        let hot = Hot::new(front.as_deref(), &checks);
        #[rustfmt::skip]
        let layout = Layout {
            shape: 1, front, checks, credits: vec![], tallies: vec![], asked: vec![], set, smalls, sums, checked, found, generations: found,
            indices: words, adds: words, keys: words, words, hot,
        };
        layout
    }

    /// A row for the packet: its constants are such that all sums are right.
    fn row(rng: &mut Rng, layout: &mut Layout, key: &KeyForm, packet: &Packet) -> Vec<u64> {
        let window = form::window(packet.bytes());
        let mut row = vec![0; layout.words];
        let mut words = [[0; BLOCK]; BLOCKS];
        row[HEADER] = key.key(&window::window(&window), (packet.len(), packet.ingress_port.0), &mut words);
        row[HEADER + 1..layout.set].copy_from_slice(&words.as_flattened()[..key.len() - 1]);
        set_lengths(&mut row, (rng.u32(..=packet.len() as u32), packet.len() as u32 + rng.u32(..100)));
        if let Some(front) = &layout.front {
            let end = usize::from(front.len);
            let set: [u8; WINDOW] = std::array::from_fn(|at| if at < end { rng.u8(..) & !front.keep[at] } else { 0 });
            row[layout.set..layout.smalls].iter_mut().zip(form::words(&set)).for_each(|(to, word)| *to = word);
        }
        (0..layout.found).for_each(|at| put(&mut row[layout.smalls..], at, rng.u32(..)));
        for at in 0..layout.checks.len() {
            let constant = rng.u16(..);
            let place = layout.checked + at;
            let half = &mut row[layout.smalls + place / 2];
            *half &= !(0xffff_ffff << (32 * (place % 2)));
            put(&mut row[layout.smalls..], place, u32::from(constant));
            let check = &mut layout.checks[at];
            let found = check.word.map_or(0, |at| form::word(&window, usize::from(at)));
            check.expected = check.sum.with(u64::from(constant), &window, packet.len()) ^ found;
        }
        layout.hot = Hot::new(layout.front.as_deref(), &layout.checks);
        row
    }

    /// What becomes of a packet without native code, if the row is for it: whether it leaves, and its bytes.
    fn plain(row: Row<'_>, key: &KeyForm, packet: &Packet) -> Option<(bool, Vec<u8>)> {
        let window = window::window(&form::window(packet.bytes()));
        let mut words = [[0; BLOCK]; BLOCKS];
        let lead = key.key(&window, (packet.len(), packet.ingress_port.0), &mut words);
        let same = lead == row.key()[0] && begins(&row.key()[1..], words.as_flattened());
        (same && row.fits(&window, packet.len())).then(|| {
            if row.layout.front.is_none() {
                return (false, packet.bytes().to_vec());
            }
            let mut head = window::EMPTY;
            let (len, taken) = row.write(&window, packet.len(), &mut head);
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
        let edge = if rng.bool() { Edge::Front } else { Edge::Back };
        guarded::fill(&mut changed, &bytes, edge).expect("there is memory");
        changed.ingress_port = PortId(packet.ingress_port.0 ^ u32::from(rng.u8(..16) == 0));
        changed
    }

    /// Native code does what the rest of this module does, for packets that rows are for and others, of all lengths, with forbidden pages around them.
    #[test]
    fn code_is_the_plain_form() {
        let seed = std::env::var("CODE_SEED").map_or(17, |seed| seed.parse().expect("a number"));
        println!("CODE_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let (mut hashed, mut others, mut there, mut apart, mut dropped) = (0, 0, 0, 0, 0);
        for _ in 0..600 {
            let (form, secrets) = (shape(&mut rng), Secrets::new());
            let key = KeyForm::new(&form);
            let bytes: Vec<u8> =
                (0..rng.usize(60..300)).map(|_| if rng.u8(..8) == 0 { 0 } else { rng.u8(..) }).collect();
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            packet.ingress_port = PortId(rng.u32(..));
            let mut layout = layout(&mut rng, &key);
            let words = row(&mut rng, &mut layout, &key, &packet);
            let row = Row { layout: &layout, words: &words };
            let hash = hash_code(1, &key, &secrets).unwrap().expect("the machine has code");
            let code = row_code(&layout, &key).unwrap().expect("there is room");
            for round in 0..12 {
                let mut came =
                    if round == 0 { changed(&mut Rng::with_seed(3), &packet) } else { changed(&mut rng, &packet) };
                if let Some(hash) = hash.hash(&mut came) {
                    let mut words = [[0; BLOCK]; BLOCKS];
                    let arrived = (came.len(), came.ingress_port.0);
                    let lead = key.key(&window::window(&form::window(came.bytes())), arrived, &mut words);
                    assert_eq!(hash, secrets.hash(1, lead, &words.as_flattened()[..key.len() - 1]), "{form:?}");
                    hashed += 1;
                }
                let expected = plain(row, &key, &came).filter(|_| came.len() >= code.depth());
                let mut head = [0; rewrite::HEAD];
                let before = came.bytes().to_vec();
                let done = code.apply(&words, &mut came, &mut head).told();
                let got = match done {
                    Told::Others => None,
                    Told::There(fate) => {
                        there += 1;
                        Some((true, came.bytes().to_vec(), fate))
                    }
                    Told::Apart(fate) => {
                        apart += 1;
                        let (len, taken) = layout.hot.lengths();
                        came.replace_front(taken, &head[..len]).unwrap();
                        Some((true, came.bytes().to_vec(), fate))
                    }
                    Told::Dropped(fate) => {
                        dropped += 1;
                        Some((false, came.bytes().to_vec(), fate))
                    }
                };
                assert!(got.is_some() || came.bytes() == before, "whose row it is not is as it was");
                others += u32::from(got.is_none());
                assert_eq!(got, expected.map(|(leaves, bytes)| (leaves, bytes, row.fate())), "{form:?} {layout:?}");
            }
        }
        let all = (hashed, others, there, apart, dropped);
        assert!(hashed > 4_000 && others > 500 && there > 500 && apart > 500 && dropped > 100, "{all:?}");
    }
}
