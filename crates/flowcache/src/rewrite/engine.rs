//! [`RewriteCache`]: the interpreter, and the rewrites of what it did.

use super::Unrewritable;
use super::batch::Lanes;
use super::flows::{Flow, Flows, Placed};
use super::form::{WINDOW, window};
use super::layout::Layout;
use super::noted::{Noted, Notes};
use super::row;
use super::shadow::{Known, Shadow};
use super::template::{Came, Left, Template};
use super::ways::{Way, Ways};
use interp::{ByteForm, Config, Credit, Explainer, IdleEntry, Interp, LoadError, Outputs};
use ir::{Entity, Pipeline, TableId};
use packet::{Origin, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tables::{Change, WriteBatch, WriteError};

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteStats {
    /// Packets that the interpreter ran.
    pub ran: u64,
    /// Packets that were rewritten here.
    pub rewritten: u64,
    /// Rewrites that were kept.
    pub kept: u64,
    /// Rewrites that were made by what is known of the packet's way.
    pub by_way: u64,
    /// Packets with a shadow beside them.
    pub shadowed: u64,
    /// Packets of which it is known by their way that there is no rewrite.
    pub refused_by_way: u64,
    /// Those of them that took the place of one for other lengths.
    pub replaced: u64,
    /// Rewrites that a change of a table made stale.
    pub stale: u64,
    /// Rewrites that went for others.
    pub evicted: u64,
    /// Packets whose rewrite would not have been what the interpreter did: a fault, and the rewrite was not kept.
    pub faults: u64,
    /// Packets of which no rewrite was kept, by reason.
    pub refused: BTreeMap<Unrewritable, u64>,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was rewritten: its verdict, of this place.
    Rewritten(u32, Verdict),
    /// No rewrite fits.
    Missed,
}

/// An interpreter that says what it did as rewrites. Somebody else may have them carried out; what that counts is credited here.
pub struct RewriteCache {
    pub(super) interp: Interp,
    pub(super) known: Arc<Known>,
    pub(super) flows: Flows,
    pub(super) stats: RewriteStats,
    ways: Ways,
    notes: Notes,
    /// Runs a packet once more beside a shadow, with no effect; `None` if packets add entries, which it would not find.
    again: Option<Explainer>,
    /// The last packet's way needs a shadow each time: the next one has it from the start, which costs less than a second run.
    shadow_first: bool,
    scratch: Outputs,
    /// The rewrite that is being made.
    row: Vec<u64>,
    /// Rows with packets that were not credited yet.
    counted: Vec<u32>,
    /// Packets add entries, which the one behind may find.
    pub(super) in_turn: bool,
    pub(super) lanes: Lanes,
    pub(super) results: Outputs,
}

impl RewriteCache {
    /// Loads a pipeline that the verifier has accepted; with room for so many flows.
    ///
    /// # Errors
    /// Those of [`Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config, room: usize) -> Result<RewriteCache, LoadError> {
        let interp = Interp::new(pipeline.clone(), config.clone())?;
        let adds = pipeline.tables.values().any(|table| table.add_on_miss);
        let again = if adds { None } else { Some(Explainer::new(pipeline.clone(), config)?) };
        let known = Arc::new(Known::new(&pipeline, interp.program()));
        let flows = Flows::new(&known.pipeline, &known.witnesses, room);
        let notes = Notes { known: known.clone(), noted: Noted::default() };
        let (stats, ways, scratch) = (RewriteStats::default(), Ways::default(), Outputs::new());
        let (row, counted) = (Vec::new(), Vec::new());
        Ok(RewriteCache {
            interp,
            known,
            flows,
            stats,
            ways,
            notes,
            again,
            shadow_first: false,
            scratch,
            row,
            counted,
            in_turn: adds,
            lanes: Lanes::default(),
            results: Outputs::new(),
        })
    }

    /// How many ways are known.
    pub fn ways(&self) -> usize {
        self.ways.len()
    }

    /// The interpreter, with all state.
    pub fn interp(&self) -> &Interp {
        &self.interp
    }

    /// The same, to set counters and the like. Tables are changed by [`RewriteCache::write`] only.
    pub fn interp_mut(&mut self) -> &mut Interp {
        &mut self.interp
    }

    /// The rewrites.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// What was counted.
    pub fn stats(&self) -> &RewriteStats {
        &self.stats
    }

    /// Runs a packet; and the place of the rewrite that was made of it.
    ///
    /// # Errors
    /// Why none was kept; the packet was run nevertheless.
    pub fn learn(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) -> Result<Placed, Unrewritable> {
        self.stats.ran += 1;
        let made = self.make((bytes, port, now), out);
        let placed = made.and_then(|made| {
            let placed = self.flows.insert(&self.known, (made.layout, &self.row), &window(bytes));
            if made.alone {
                self.flows.drop_layout(made.layout);
            }
            placed
        });
        match &placed {
            Ok(placed) => {
                self.stats.kept += 1;
                if let Some((_, gone)) = &placed.replaced {
                    self.stats.replaced += 1;
                    let (packets, bytes, last) = gone.uncredited;
                    self.credit_gone(gone, packets, bytes, last);
                }
            }
            Err(why) => *self.stats.refused.entry(*why).or_default() += 1,
        }
        placed
    }

    fn make(&mut self, packet: (&[u8], u32, u64), out: &mut Outputs) -> Result<Made, Unrewritable> {
        let (bytes, port, now) = packet;
        let bytes = &bytes[..bytes.len().min(packet::MAX_LEN)];
        let came = Came { bytes, port };
        if self.again.is_none() || self.shadow_first {
            let mut shadow = Shadow::new(&self.known, bytes);
            self.interp.process_by(&mut shadow, bytes, port, now, out);
            let noted = std::mem::take(&mut shadow.noted);
            let whole = self.again.is_some() && shadow.pins.failed.is_none();
            return self.by_shadow(shadow, (came, only(out)?), (&noted, whole));
        }
        self.notes.noted.clear();
        self.interp.process_by(&mut self.notes, bytes, port, now, out);
        let noted = std::mem::take(&mut self.notes.noted);
        let made = self.by_way((came, now), only(out), &noted);
        self.notes.noted = noted;
        made
    }

    /// The rewrite of a packet that was run and noted: by what is known of its way, or else by running it again beside a shadow.
    fn by_way(
        &mut self,
        (came, now): (Came<'_>, u64),
        left: Result<Left<'_>, Unrewritable>,
        noted: &Noted,
    ) -> Result<Made, Unrewritable> {
        let left = left?;
        match self.ways.get(noted.decisions()) {
            _ if noted.too_long => return Err(Unrewritable::Aborted),
            Some(Way::Never(why)) => {
                self.stats.refused_by_way += 1;
                return Err(*why);
            }
            Some(Way::Template(template, layout)) => {
                let layout = match layout {
                    Some(layout) => *layout,
                    None => *layout.insert(share(&mut self.flows, &self.interp, template, noted)?),
                };
                let filling = Filling { flows: &mut self.flows, interp: &self.interp, row: &mut self.row };
                if filling.fill(template, layout, (came, left, false), noted).is_ok() {
                    self.stats.by_way += 1;
                    return Ok(Made { layout, alone: false });
                }
            }
            Some(Way::ByValue) | None => {}
        }
        let mut shadow = Shadow::new(&self.known, came.bytes);
        let Some(again) = &mut self.again else { return Err(Unrewritable::Aborted) };
        let packet = (came.bytes, came.port, now);
        let ran = again.process_by(self.interp.state(), &mut shadow, packet, &mut self.scratch);
        let failed = shadow.pins.failed;
        let (all, seen) = (noted.decisions(), shadow.noted.decisions());
        if !ran || !all.starts_with(seen) || failed.is_none() && all.len() != seen.len() {
            self.stats.shadowed += 1;
            return Err(failed.unwrap_or(Unrewritable::Aborted));
        }
        self.by_shadow(shadow, (came, left), (noted, true))
    }

    /// The rewrite of a packet by its shadow, and what that says of the packet's way, if the whole of it is noted.
    fn by_shadow(
        &mut self,
        shadow: Shadow,
        (came, left): (Came<'_>, Left<'_>),
        (noted, whole): (&Noted, bool),
    ) -> Result<Made, Unrewritable> {
        self.stats.shadowed += 1;
        let by_value = shadow.pins.by_value;
        self.shadow_first = by_value;
        let template = shadow.finish(matches!(left.verdict, Verdict::Forward { .. }));
        if whole && !noted.too_long && self.ways.get(noted.decisions()).is_none() {
            match &template {
                _ if by_value => self.ways.learn(noted.decisions(), Way::ByValue),
                Ok(template) => self.ways.learn(noted.decisions(), Way::Template(Box::new(template.clone()), None)),
                Err(why) if why.is_of_the_way() => self.ways.learn(noted.decisions(), Way::Never(*why)),
                Err(_) => {}
            }
        }
        let template = template?;
        let layout = share(&mut self.flows, &self.interp, &template, noted)?;
        let filling = Filling { flows: &mut self.flows, interp: &self.interp, row: &mut self.row };
        let filled = filling.fill(&template, layout, (came, left, true), noted);
        // It must do to this packet what was done.
        self.stats.faults += u64::from(matches!(filled, Err(Unrewritable::Aborted)));
        match filled {
            Ok(()) => Ok(Made { layout, alone: true }),
            Err(why) => {
                self.flows.drop_layout(layout);
                Err(why)
            }
        }
    }

    /// Rewrites a packet, if there is a rewrite for it, and counts it. `out` gets its bytes if it leaves.
    pub fn rewrite(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Vec<u8>) -> Answer {
        let Some(number) = self.flows.find(bytes, port) else { return Answer::Missed };
        let window = window(bytes);
        let row = self.flows.row(number);
        let verdict = row.verdict(self.flows.reasons());
        out.clear();
        if matches!(verdict, Verdict::Forward { .. }) {
            let mut head = [0; WINDOW];
            let (len, taken) = row.write(&window, bytes.len(), &mut head);
            out.extend_from_slice(&head[..len]);
            out.extend_from_slice(bytes.get(taken..).unwrap_or_default());
        }
        let (_, place) = row::of(row.words);
        let now = self.interp.saw(now);
        self.stats.rewritten += 1;
        self.count(number, 1, bytes.len() as u64, now);
        Answer::Rewritten(place, verdict)
    }

    pub(super) fn count(&mut self, row: u32, packets: u64, bytes: u64, last: u64) {
        if row::add(self.flows.words_mut(row), packets, bytes, last) {
            self.counted.push(row);
        }
    }

    /// Counts packets that were rewritten elsewhere: so many, of so many bytes in all, the last of them at `last` nanoseconds.
    pub fn credit(&mut self, place: u32, packets: u64, bytes: u64, last: u64) {
        if let Some(row) = self.flows.row_of(place) {
            self.count(row, packets, bytes, last);
        }
    }

    /// The same, for one that was taken out.
    pub fn credit_gone(&mut self, flow: &Flow, packets: u64, bytes: u64, last: u64) {
        if packets == 0 {
            return;
        }
        credit(&mut self.interp, flow.rewrite.credits.iter().cloned(), (packets, bytes, last));
    }

    /// Counters, tallies and idle times have what rewritten packets add to them: before anybody reads them. A write and the passing of time do it by
    /// themselves.
    pub fn settle(&mut self) {
        for number in std::mem::take(&mut self.counted) {
            let words = self.flows.words_mut(number);
            let sum = [row::PACKETS, row::BYTES].map(|at| std::mem::take(&mut words[at]));
            let last = words[row::LAST];
            if sum[0] > 0 {
                credit(&mut self.interp, self.flows.row(number).credits(), (sum[0], sum[1], last));
            }
        }
    }

    /// Applies a batch as a whole. The rewrites that contradict the tables now are no more found, and come back with their places, which are not used again
    /// until [`RewriteCache::release`].
    ///
    /// # Errors
    /// Those of [`Interp::write`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Vec<(u32, Flow)>, WriteError> {
        self.settle();
        let mut noted: Vec<(Change, Option<u32>)> = Vec::new();
        self.interp.write_noting(batch, |change, number| noted.push((change.clone(), number)))?;
        let mut stale = BTreeSet::new();
        for (change, number) in &noted {
            self.flows.stale(&self.known, &self.interp, (change, *number), &mut stale);
        }
        Ok(self.forget(stale))
    }

    fn forget(&mut self, stale: BTreeSet<u32>) -> Vec<(u32, Flow)> {
        let gone: Vec<(u32, Flow)> =
            stale.into_iter().filter_map(|place| Some((place, self.flows.remove(&self.known, place)?))).collect();
        self.stats.stale += gone.len() as u64;
        gone
    }

    /// Time passes; idle entries, and rewrites that found one that is gone.
    pub fn advance_time(&mut self, now: u64) -> (Vec<IdleEntry>, Vec<(u32, Flow)>) {
        self.settle();
        let idle = self.interp.advance_time(now);
        let mut stale = BTreeSet::new();
        for gone in idle.iter().filter(|gone| gone.deleted) {
            self.flows.gone(&self.known, gone.table, &gone.entry, None, &mut stale);
        }
        (idle, self.forget(stale))
    }

    /// Takes out up to `count` flows that had no packets for the longest time.
    pub fn evict(&mut self, count: usize) -> Vec<(u32, Flow)> {
        self.settle();
        let oldest = self.flows.oldest(count);
        let gone: Vec<(u32, Flow)> =
            oldest.into_iter().filter_map(|place| Some((place, self.flows.remove(&self.known, place)?))).collect();
        self.stats.evicted += gone.len() as u64;
        gone
    }

    /// A place may be used again.
    pub fn release(&mut self, place: u32) {
        self.flows.release(place);
    }
}

/// A rewrite that was made: what it shares with others, and whether nobody else holds that.
#[derive(Clone, Copy, Debug)]
struct Made {
    layout: u32,
    alone: bool,
}

/// What rewrites of a template, whose packets are noted as this one, have in common: under which number it is kept.
fn share(flows: &mut Flows, interp: &Interp, template: &Template, noted: &Noted) -> Result<u32, Unrewritable> {
    let shape = flows.shape(&template.shape, template.head.is_some())?;
    let counts = |table: usize| interp.counts_hits(TableId::from_index(table));
    let layout = Layout::new(template, (shape, flows.key_form(shape)), noted, counts)?;
    Ok(flows.share(layout))
}

/// Where a rewrite is made.
struct Filling<'f> {
    flows: &'f mut Flows,
    interp: &'f Interp,
    row: &'f mut Vec<u64>,
}

impl Filling<'_> {
    fn fill(
        self,
        template: &Template,
        layout: u32,
        packet: (Came<'_>, Left<'_>, bool),
        noted: &Noted,
    ) -> Result<(), Unrewritable> {
        let reason = match packet.1.verdict {
            Verdict::Drop(reason) => self.flows.reason(reason),
            _ => 0,
        };
        let layout = self.flows.layout(layout);
        let key = self.flows.key_form(layout.shape);
        template.fill((layout, key), packet, (noted, self.interp), reason, self.row)
    }
}

/// The one packet that became of it, if it is one that a rewrite can make.
fn only(out: &Outputs) -> Result<Left<'_>, Unrewritable> {
    match out.packets() {
        [only] if only.origin != Origin::Received => Err(Unrewritable::Copies),
        [only] if matches!(only.verdict, Verdict::ToCpu { .. }) => Err(Unrewritable::ToCpu),
        [only] => Ok(Left { verdict: only.verdict, bytes: &only.bytes }),
        _ => Err(Unrewritable::Copies),
    }
}

/// What so many packets of so many bytes, the last of them then, add up to.
fn credit(
    interp: &mut Interp,
    credits: impl Iterator<Item = (Credit, ByteForm)>,
    (packets, bytes, last): (u64, u64, u64),
) {
    interp.saw(last);
    for (credit, form) in credits {
        interp.credit(&credit, packets, form.total(packets, bytes), last);
    }
}
