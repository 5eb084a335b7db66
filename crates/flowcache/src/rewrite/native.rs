//! Native code as what runs the packets that there is no rewrite for: many at once, each noted ([`jit::Record`]).

use super::Unrewritable;
use super::batch::{Serves, at_one_time, received};
use super::engine::RewriteCache;
use super::find::TOGETHER;
use super::flows::Ready;
use super::maker::Made;
use super::noted::Noted;
use super::runs::Runs;
use super::shadow::Known;
use super::template::{Came, Left};
use interp::{Config, Credit, IdleEntry, Interp};
use ir::{Pipeline, TableId};
use jit::{Jit, JitError, Unsupported};
use packet::{Batch, Emission, Engine, EngineReason, Origin, Output, Packet, PacketRef, ReasonTable, Verdict};
use std::borrow::Cow;
use std::sync::Arc;
use tables::{Change, Entry, State, WriteBatch, WriteError};
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

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(self)
    }

    fn notify(&mut self, _: Vec<IdleEntry>) {
        // Programs with idle times are not made native.
    }
}

/// New flows that are made together.
const LEARNED: usize = 64;

/// Packets on their way through native code, and what was noted of each.
#[derive(Default)]
pub(super) struct Misses {
    batch: Batch,
    out: Output,
    noted: Vec<Noted>,
    /// Which packets of the batch they are.
    of: Vec<usize>,
    made: Vec<Result<Made, Unrewritable>>,
    rows: Vec<Ready>,
}

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

    /// Runs those packets that there is no rewrite for, and keeps what they did; older flows go for them if there is no place.
    fn learn_all(&mut self, misses: &mut Misses, packets: &mut [Packet], verdicts: &mut [Option<Verdict>]) {
        misses.batch.clear();
        misses.out.clear();
        misses.of.clear();
        for (at, packet) in packets.iter().enumerate().filter(|(at, _)| verdicts[*at].is_none()).take(LEARNED) {
            let Ok(room) = misses.batch.push() else { break };
            room.copy_from(packet);
            misses.of.push(at);
        }
        misses.noted.resize_with(LEARNED, Noted::default);
        let noted = &mut misses.noted;
        self.runs.process_recorded(&mut misses.batch, &mut misses.out, &mut |at, record| noted[at].take(record));
        self.room_for(misses.of.len());
        self.make_all(misses, packets);
        self.keep_all(misses, packets);
        for (emission, at) in misses.out.emissions().iter().zip(&misses.of) {
            verdicts[*at] = Some(emission.verdict);
        }
        for (ran, at) in misses.batch.packets_mut().iter_mut().zip(&misses.of) {
            // Native code answers each packet.
            verdicts[*at].get_or_insert(Verdict::Drop(EngineReason::EngineFault.into()));
            std::mem::swap(ran, &mut packets[*at]);
            packets[*at].mark = ran.mark;
        }
    }

    /// Packets that came at one time: those that there are rewrites for, then the others, so that these wait for memory together. What became of each.
    fn together(&mut self, packets: &mut [Packet], verdicts: &mut Vec<Option<Verdict>>) {
        verdicts.clear();
        verdicts.resize(packets.len(), None);
        let before = self.maker.stats.rewritten;
        for (packets, verdicts) in packets.chunks_mut(TOGETHER).zip(verdicts.chunks_mut(TOGETHER)) {
            self.rewrite_all(packets, verdicts);
        }
        if self.maker.stats.rewritten - before == packets.len() as u64 {
            return;
        }
        self.admit(packets, verdicts);
        if verdicts.contains(&None) {
            self.slowly(|cache| {
                let mut misses = std::mem::take(&mut cache.slow.misses);
                while verdicts.contains(&None) {
                    cache.learn_all(&mut misses, packets, verdicts);
                }
                cache.slow.misses = misses;
            });
        }
    }

    fn make_all(&mut self, misses: &mut Misses, packets: &[Packet]) {
        let Misses { batch, out, noted, of, made, rows } = misses;
        made.clear();
        rows.resize_with(rows.len().max(of.len()), Ready::default);
        for (number, at) in of.iter().enumerate() {
            let (packet, noted) = (&packets[*at], &noted[number]);
            self.maker.stats.ran += 1;
            let came = Came { bytes: packet.bytes(), port: packet.ingress_port.0 };
            let became = left(out.emissions().get(number), &batch.packets()[number], number);
            let one = self.maker.by_way(&self.runs, (came, packet.received_at), became, noted);
            if let Ok(one) = one {
                self.maker.ready(one, &mut rows[number]);
            }
            made.push(one);
        }
    }

    fn keep_all(&mut self, misses: &mut Misses, packets: &[Packet]) {
        let made = misses.rows.iter().zip(&misses.made).filter(|(_, made)| made.is_ok());
        for (before, (ready, _)) in made.enumerate() {
            self.maker.flows.ready_soon(ready, before);
        }
        for (number, (made, at)) in misses.made.iter().zip(&misses.of).enumerate() {
            let ready = &misses.rows[number];
            // The packet in front may have been of the same flow.
            if let Ok(made) = made
                && self.maker.flows.is_kept(made.layout, ready)
            {
                self.maker.leave(*made);
                continue;
            }
            let packet = &packets[*at];
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
            self.together(&mut packets[first..first + count], &mut verdicts);
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

impl Engine for RewriteCache<Jit> {
    fn name(&self) -> &str {
        "rewrites"
    }

    fn reasons(&self) -> &ReasonTable {
        Runs::reasons(&self.runs)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.serve_all(batch, out);
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.of_marked)
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        self.pass_time(now);
    }

    fn rest(&mut self) {
        self.runs.park();
    }
}
