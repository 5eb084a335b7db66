//! Native code as what runs the packets that there is no rewrite for: many at once, each noted ([`jit::Record`]).

use super::Unrewritable;
use super::batch::{Serves, at_one_time, received};
use super::engine::RewriteCache;
use super::fill::{Came, Left};
use super::find::TOGETHER;
use super::flows::Ready;
use super::misses::Misses;
use super::newcomers::{Newcomers, Turn};
use super::noted::Noted;
use super::runs::Runs;
use super::shadow::Known;
use entries::{Change, Entry, State, WriteBatch, WriteError};
use interp::{Config, Credit, IdleEntry, Interp};
use ir::{Pipeline, TableId};
use jit::{Jit, JitError, Unsupported};
use packet::{Emission, Engine, Origin, Output, Packet, PacketRef, ReasonTable, Verdict};
use std::borrow::Cow;
use std::sync::Arc;
use thiserror::Error;

/// Why native code does not run the packets.
#[derive(Debug, Error)]
pub enum NativeError {
    /// The program can't be loaded.
    #[error(transparent)]
    Load(#[from] JitError),
    /// Native code has no form for something: [`RewriteCache::new`] takes the program.
    #[error("native code is not made for this program: {0}")]
    Unsupported(Unsupported),
}

impl Runs for Jit {
    const DECIDES_AS_INTERP: bool = false;

    fn arg(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64> {
        let mut words = Vec::new();
        if self.args(table, found, &mut words) { words.get(word).copied() } else { None }
    }

    fn generation(&self, table: TableId, number: u32) -> u32 {
        Jit::generation(self, table, number)
    }

    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, Entry>> {
        Jit::entry_of(self, table, number).map(Cow::Owned)
    }

    fn saw(&mut self, now: u64) -> u64 {
        Jit::saw(self, now)
    }

    fn credit(&mut self, credit: &Credit, packets: u64, bytes: u64, last: u64) {
        Jit::credit(self, credit, packets, bytes, last);
    }

    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&Change, Option<u32>),
    ) -> Result<(), WriteError> {
        Jit::write_noting(self, batch, note)
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        Jit::advance_time(self, now)
    }

    fn with_state<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        Jit::with_state(self, f)
    }

    fn park(&mut self) {
        Jit::park(self);
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(self)
    }

    fn notify(&mut self, _: Vec<IdleEntry>) {
        // Programs with idle times are not made native.
    }
}

/// New flows that are made together.
const LEARNED: usize = 64;

impl RewriteCache<Jit> {
    /// Loads a pipeline that the verifier has accepted; with room for so many flows.
    ///
    /// # Errors
    /// Those of [`Jit::new`]; and a program that is not made native.
    pub fn native(pipeline: Arc<Pipeline>, config: Config, room: usize) -> Result<RewriteCache<Jit>, NativeError> {
        let jit = Jit::recording(pipeline.clone(), config.clone())?;
        if let Some(why) = jit.unsupported() {
            return Err(NativeError::Unsupported(why));
        }
        let load = |error| NativeError::Load(JitError::Load(error));
        let interp = Interp::new(pipeline.clone(), config.clone()).map_err(load)?;
        let known = Arc::new(Known::new(&pipeline, interp.program()));
        RewriteCache::with(jit, known, config, room).map_err(load)
    }

    /// Runs packets that there is no rewrite for, and keeps what they did; older flows go for them if there is no place. They are the first of those that are `missing` and have
    /// no verdict; how many were looked at.
    fn learn_some(
        &mut self,
        misses: &mut Misses,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &mut [Option<Verdict>],
    ) -> usize {
        let looked = self.gather(misses, missing, packets, verdicts);
        misses.noted.resize_with(LEARNED, Noted::default);
        let (noted, learned) = (&mut misses.noted, &misses.learned);
        let mut next = learned.iter().enumerate().peekable();
        self.runs.process_recorded(&mut misses.batch, &mut misses.out, &mut |at, record| {
            if let Some((place, _)) = next.next_if(|(_, number)| **number == at) {
                noted[place].take(record);
            }
        });
        self.maker.stats.ran += misses.learned.len() as u64;
        self.count_passed(misses.of.len() - misses.learned.len());
        self.room_for(misses.learned.len());
        self.make_all(misses, packets);
        self.keep_all(misses, packets);
        misses.give_back(packets, verdicts);
        looked
    }

    /// Takes packets for [`RewriteCache::learn_some`]: copies of those that are kept.
    fn gather(
        &mut self,
        misses: &mut Misses,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &[Option<Verdict>],
    ) -> usize {
        misses.clear();
        for (looked, (at, number)) in missing.iter().enumerate() {
            if misses.learned.len() == LEARNED {
                return looked;
            }
            if verdicts[*at].is_some() {
                continue;
            }
            let Ok(room) = misses.batch.push() else { return looked };
            if self.is_learned(*number, &packets[*at]) {
                room.copy_from(&packets[*at]);
                misses.learned.push(misses.of.len());
            } else {
                std::mem::swap(room, &mut packets[*at]);
            }
            misses.of.push(*at);
        }
        missing.len()
    }

    /// Whether what a packet does is kept, whose flow has that number.
    fn is_learned(&mut self, number: u64, packet: &Packet) -> bool {
        if !self.is_scarce() {
            return true;
        }
        let newcomers = &mut self.slow.newcomers;
        let number = if number == 0 { newcomers.number(packet.bytes()) } else { number };
        newcomers.are_known(number, self.maker.flows.room())
    }

    /// Whether there is hardly room.
    fn is_scarce(&self) -> bool {
        self.told.is_none() && Newcomers::matter(self.maker.flows.free(), self.maker.flows.room())
    }

    /// Runs those that are `missing` and have no verdict, which are at most a batch, and keeps nothing. False, and nothing was done, if that is not made native.
    fn pass_some(
        &mut self,
        misses: &mut Misses,
        missing: &[(usize, u64)],
        (packets, verdicts): (&mut [Packet], &mut [Option<Verdict>]),
    ) -> bool {
        misses.clear();
        for (at, _) in missing.iter().filter(|(at, _)| verdicts[*at].is_none()) {
            let Ok(room) = misses.batch.push() else { break };
            std::mem::swap(room, &mut packets[*at]);
            misses.of.push(*at);
        }
        let ran = self.runs.process_quietly(misses.batch.packets_mut(), 0, &mut misses.out);
        if ran {
            self.count_passed(misses.of.len());
        }
        misses.give_back(packets, if ran { verdicts } else { &mut [] });
        ran
    }

    fn count_passed(&mut self, packets: usize) {
        self.maker.stats.ran += packets as u64;
        self.maker.stats.passed += packets as u64;
    }

    /// Packets that came at one time: those that there are rewrites for, then the others, so that these wait for memory together. What became of each.
    fn together(&mut self, turn: Turn, packets: &mut [Packet], verdicts: &mut Vec<Option<Verdict>>) {
        verdicts.clear();
        verdicts.resize(packets.len(), None);
        let mut missing = std::mem::take(&mut self.slow.missing);
        missing.clear();
        let mut first = 0;
        for (packets, verdicts) in packets.chunks_mut(TOGETHER).zip(verdicts.chunks_mut(TOGETHER)) {
            let before = self.maker.stats.rewritten;
            self.rewrite_all(packets, verdicts);
            if self.maker.stats.rewritten - before < packets.len() as u64 {
                let lanes = self.seeking.iter().flat_map(|seeking| &seeking.lanes).zip(&*verdicts).enumerate();
                let none = lanes.filter(|(_, (_, verdict))| verdict.is_none());
                missing.extend(none.map(|(at, (lane, _))| (first + at, lane.first)));
            }
            first += packets.len();
        }
        self.slow.turns.saw(packets.len(), missing.len());
        if !missing.is_empty() {
            self.admit(packets, verdicts);
            self.slowly(|cache| cache.run_all(turn, &missing, packets, verdicts));
        }
        self.slow.missing = missing;
    }

    /// Runs those that are `missing` and have no verdict.
    fn run_all(
        &mut self,
        turn: Turn,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &mut [Option<Verdict>],
    ) {
        let mut misses = std::mem::take(&mut self.slow.misses);
        let passed = turn != Turn::Keep && self.pass_some(&mut misses, missing, (packets, verdicts));
        let mut rest = if passed { &[] } else { missing };
        while !rest.is_empty() {
            rest = &rest[self.learn_some(&mut misses, rest, packets, verdicts)..];
        }
        self.slow.misses = misses;
    }

    /// All packets are run without being looked for: false, and nothing was done, if that is not made native. The first has that number in its batch.
    fn pass_all(&mut self, packets: &mut [Packet], first: usize, out: &mut Output) -> bool {
        let ran = self.admission.is_none() && self.runs.process_quietly(packets, first, out);
        if ran {
            self.count_passed(packets.len());
        }
        ran
    }

    fn make_all(&mut self, misses: &mut Misses, packets: &[Packet]) {
        let Misses { batch, out, noted, of, learned, made, rows } = misses;
        made.clear();
        rows.resize_with(rows.len().max(learned.len()), Ready::default);
        for (place, number) in learned.iter().enumerate() {
            let (packet, noted, number) = (&packets[of[*number]], &noted[place], *number);
            let came = Came { bytes: packet.bytes(), port: packet.ingress_port.0 };
            let became = left(out.emissions().get(number), &batch.packets()[number], number);
            let one = self.maker.by_way(&self.runs, (came, packet.received_at), became, noted);
            if let Ok(one) = one {
                self.maker.ready(one, &mut rows[place]);
            }
            made.push(one);
        }
    }

    fn keep_all(&mut self, misses: &mut Misses, packets: &[Packet]) {
        let made = misses.rows.iter().zip(&misses.made).filter(|(_, made)| made.is_ok());
        for (before, (ready, _)) in made.enumerate() {
            self.maker.flows.ready_soon(ready, before);
        }
        for (place, (made, number)) in misses.made.iter().zip(&misses.learned).enumerate() {
            let (ready, at) = (&misses.rows[place], misses.of[*number]);
            // The packet in front may have been of the same flow.
            if let Ok(made) = made
                && self.maker.flows.is_kept(made.layout, ready)
            {
                self.maker.leave(*made);
                continue;
            }
            let packet = &packets[at];
            let placed = made.and_then(|made| self.maker.keep(made, ready, (packet.bytes(), packet.received_at)));
            self.placed(placed);
        }
    }
}

impl Serves for RewriteCache<Jit> {
    fn serve(&mut self, packets: &mut [Packet], offset: usize, out: &mut Output) {
        let mut verdicts = std::mem::take(&mut self.slow.verdicts);
        let mut first = 0;
        while first < packets.len() {
            let count = at_one_time(&packets[first..]);
            let some = &mut packets[first..first + count];
            let turn = if self.is_scarce() { self.slow.turns.next() } else { Turn::Keep };
            if turn == Turn::Pass && self.pass_all(some, offset + first, out) {
                first += count;
                continue;
            }
            self.together(turn, some, &mut verdicts);
            for (at, verdict) in verdicts.iter().enumerate().filter_map(|(at, verdict)| Some((at, (*verdict)?))) {
                out.emit(received(offset + first + at, verdict));
            }
            first += count;
        }
        self.slow.verdicts = verdicts;
    }
}

/// What became of the packet of that number, if it is what a rewrite can make.
fn left<'p>(emission: Option<&Emission>, packet: &'p Packet, number: usize) -> Result<Left<'p>, Unrewritable> {
    match emission {
        Some(Emission { verdict: Verdict::ToCpu { .. }, .. }) => Err(Unrewritable::ToCpu),
        Some(Emission { packet: PacketRef::Input(at), origin: Origin::Received, verdict })
            if usize::from(*at) == number =>
        {
            Ok(Left { verdict: *verdict, bytes: packet.bytes() })
        }
        _ => Err(Unrewritable::Copies),
    }
}
