//! [`Template`]: what all rewrites of a way have in common.
//!
//! Which bits make the key, which bits of the new head are the packet's own, which lengths and sums are written and checked: that is the same for all packets
//! that decide alike, unless a value says it ([`super::sym::Pins::by_value`]). The rest is found without the program: constants of the new head are what the packet left with,
//! a sum's constant is what makes it come out, entries and counters were noted ([`super::noted`]). A rewrite that does not do to the packet itself what was done
//! is not made.

use super::Unrewritable;
use super::form::{Check, Fate, Head, MAX_SUMS, Rewrite, Shape, WINDOW};
use super::noted::Noted;
use super::sym::{Bound, Given, Length, Pins, Words};
use interp::{ByteForm, Credit, Interp, OutPacket};
use ir::{ExternId, TableId};
use packet::Verdict;

/// What a packet of the way adds to. Table applications and counts are numbers of what was noted.
#[derive(Clone, Copy, Debug)]
pub enum Counted {
    /// The tally of an action of a table, with a hit or without.
    Applied(TableId, u32, bool),
    /// The entry that the application found.
    Hit(usize),
    /// Its direct counter.
    Direct(usize),
    /// Its idle time.
    Restart(usize),
    /// An element of a counter.
    Counter(ExternId, usize),
}

/// How many bytes are counted.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {
    /// A length.
    Length(Length),
    /// So many.
    These(u64),
}

impl Bytes {
    /// The packet's length.
    pub const LENGTH: Bytes = Bytes::Length(Length::of_packet(0));
}

/// The new beginning of a packet. See [`Head`].
#[derive(Clone, Debug)]
pub struct NewHead {
    pub grow: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    pub lengths: Vec<(u16, Length)>,
    pub sums: Vec<(u16, Words, bool)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Template {
    pub shape: Shape,
    pub bounds: Vec<Bound>,
    pub checks: Vec<(Words, Check)>,
    /// `None`: it is dropped.
    pub head: Option<Box<NewHead>>,
    pub credits: Vec<(Counted, Bytes)>,
}

impl Template {
    /// The rewrite of a packet of the way, which was received on `port`, and became `out`; `own`: of the one that this was made from.
    ///
    /// # Errors
    /// It is not as the template says.
    pub fn rewrite(
        &self,
        (bytes, port): (&[u8], u32),
        out: &OutPacket,
        (noted, interp): (&Noted, &Interp),
        own: bool,
    ) -> Result<Rewrite, Unrewritable> {
        let given = |given: Given| {
            let application = noted.application(given.application as usize)?;
            let args = interp.args(TableId(application.table as u32), application.found)?;
            args.get(given.word as usize).copied()
        };
        let mut pins = Pins::again(bytes, self.shape.mask, &self.bounds, given).ok_or(Unrewritable::Aborted)?;
        let fate = match (out.verdict, &self.head) {
            (Verdict::Forward { port }, Some(head)) => {
                let head = head.of(&mut pins, &out.bytes, own).ok_or(Unrewritable::Aborted)?;
                Fate::Forward { port: port.0, head: Box::new(head) }
            }
            (Verdict::Drop(reason), None) => Fate::Drop(reason),
            _ => return Err(Unrewritable::Aborted),
        };
        let close = |(words, check): &(Words, Check)| Check { sum: pins.close(words), ..check.clone() };
        let mut checks: Vec<Check> = self.checks.iter().map(close).collect();
        checks.dedup();
        if checks.len() > MAX_SUMS {
            return Err(Unrewritable::TooMuch);
        }
        let credits =
            self.credits.iter().map(|(counted, form)| Some((credit(*counted, noted, interp)?, form.of(&pins))));
        let credits = credits.collect::<Option<Vec<_>>>().ok_or(Unrewritable::Aborted)?;
        pins.failed.map_or(Ok(()), Err)?;
        let (first, last) = pins.lengths;
        let lengths = (first.max(0) as u32, last.clamp(0, i64::from(u32::MAX)) as u32);
        let key = self.shape.key(bytes, port);
        let rewrite = Rewrite { shape: self.shape.clone(), key, lengths, checks, fate, credits };
        let mut again = Vec::new();
        let leaves = rewrite.fits(bytes).then(|| rewrite.run(bytes, &mut again));
        let same = match out.verdict {
            Verdict::Forward { port } => leaves == Some(Some(port.0)) && again == out.bytes,
            _ => leaves == Some(None),
        };
        if same { Ok(rewrite) } else { Err(Unrewritable::Aborted) }
    }
}

fn credit(counted: Counted, noted: &Noted, interp: &Interp) -> Option<Credit> {
    let entry = |application: usize| {
        let application = noted.application(application)?;
        let (table, number) = (TableId(application.table as u32), application.found?);
        Some((table, number, interp.generation(table, number)))
    };
    Some(match counted {
        Counted::Applied(table, arm, hit) => Credit::Applied { table, arm, hit },
        Counted::Hit(at) => entry(at).map(|(table, number, generation)| Credit::Hit { table, number, generation })?,
        Counted::Direct(at) => {
            entry(at).map(|(table, number, generation)| Credit::Direct { table, number, generation })?
        }
        Counted::Restart(at) => {
            entry(at).map(|(table, number, generation)| Credit::Restart { table, number, generation })?
        }
        Counted::Counter(counter, count) => Credit::Counter { counter, index: noted.index(count)? },
    })
}

impl Bytes {
    fn of(self, pins: &Pins) -> ByteForm {
        match self {
            Bytes::Length(length) => ByteForm { length: true, add: pins.more(length) as u64 },
            Bytes::These(bytes) => ByteForm { length: false, add: bytes },
        }
    }
}

impl NewHead {
    fn of(&self, pins: &mut Pins, out: &[u8], own: bool) -> Option<Head> {
        let left = out.get(..self.len as usize)?;
        let mut set = [0; WINDOW];
        for (at, byte) in left.iter().enumerate() {
            set[at] = byte & !self.keep[at];
        }
        // Lengths and sums are written over it.
        let written = self.lengths.iter().map(|(at, _)| *at).chain(self.sums.iter().map(|(at, ..)| *at));
        written.for_each(|at| set[at as usize..at as usize + 2].fill(0));
        let lengths = self.lengths.iter().map(|(at, length)| (*at, pins.more(*length) as i32)).collect();
        let sums = self.sums.iter().map(|(at, words, complement)| {
            let value = u16::from_be_bytes([*left.get(*at as usize)?, *left.get(*at as usize + 1)?]);
            let sum = match words.open && !own {
                true => pins.solve(words, if *complement { !value } else { value })?,
                false => pins.close(words),
            };
            Some((*at, sum, *complement))
        });
        let sums = sums.collect::<Option<_>>()?;
        Some(Head { grow: self.grow, len: self.len, keep: self.keep, set, lengths, sums })
    }
}
