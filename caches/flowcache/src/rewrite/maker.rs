//! [`Maker`]: from packets that were run and noted to rewrites.

use super::Unrewritable;
use super::fill::{Came, Left};
use super::flows::{Flows, Placed, Ready};
use super::form::window;
use super::layout::Layout;
use super::noted::Noted;
use super::runs::Runs;
use super::shadow::{Known, Shadow};
use super::stats::RewriteStats;
use super::template::Template;
use super::tenants::Tenants;
use super::ways::{Way, Ways};
use interp::{Config, Explainer, LoadError, Outputs};
use ir::{Arch, Entity, Pipeline, TableId};
use packet::Verdict;
use std::sync::Arc;

/// See the module.
pub struct Maker {
    pub known: Arc<Known>,
    pub flows: Flows,
    pub stats: RewriteStats,
    pub ways: Ways,
    pub tenants: Tenants,
    /// Runs a packet once more beside a shadow, with no effect; `None` if packets add entries, which it would not find.
    pub again: Option<Explainer>,
    /// The last packet's way needs a shadow each time: the next one has it from the start, which costs less than a second run.
    pub shadow_first: bool,
    scratch: Outputs,
    /// The rewrite that was made.
    pub row: Vec<u64>,
}

impl Maker {
    /// With room for so many flows of a program.
    pub fn new(known: Arc<Known>, config: Config, room: usize) -> Result<Maker, LoadError> {
        let pipeline: &Arc<Pipeline> = &known.pipeline;
        let again = match pipeline.tables.values().any(|table| table.add_on_miss) {
            true => None,
            false => Some(Explainer::new(pipeline.clone(), config)?),
        };
        let flows = Flows::new(pipeline, &known.witnesses, room);
        Ok(Maker {
            known,
            flows,
            stats: RewriteStats::default(),
            ways: Ways::default(),
            tenants: Tenants::default(),
            again,
            shadow_first: false,
            scratch: Outputs::new(),
            row: Vec::new(),
        })
    }

    /// The rewrite that was made just now will be kept soon.
    pub fn ready(&mut self, made: Made, ready: &mut Ready) {
        self.flows.ready(&self.known, (made.layout, &mut self.row), ready);
    }

    /// Keeps a rewrite that was made of a packet with these bytes, which came then.
    ///
    /// # Errors
    /// There is no place.
    pub fn keep(&mut self, made: Made, ready: &Ready, (bytes, now): (&[u8], u64)) -> Result<Placed, Unrewritable> {
        let placed = self.flows.insert(&self.known, made.layout, ready, (&window(bytes), now));
        self.leave(made);
        placed
    }

    /// Nobody needs what was made any more, but rows that are kept.
    pub fn leave(&mut self, made: Made) {
        if made.alone {
            self.flows.drop_layout(made.layout);
        }
    }

    /// The rewrite of a packet that was run and noted: by what is known of its way, or else by running it again beside a shadow.
    pub fn by_way<R: Runs>(
        &mut self,
        runs: &R,
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
                    None => *layout.insert(share(&mut self.flows, &self.known.pipeline, template, noted)?),
                };
                let filling = Filling { flows: &mut self.flows, runs, row: &mut self.row };
                if filling.fill(template, layout, (came, left, false), noted).is_ok() {
                    self.stats.by_way += 1;
                    return Ok(Made { layout, alone: false });
                }
            }
            Some(Way::ByValue) | None => {}
        }
        let mut shadow = Shadow::new(&self.known, came.bytes, self.tenants.slot);
        let Some(again) = &mut self.again else { return Err(Unrewritable::Aborted) };
        let packet = (came.bytes, came.port, now);
        let scratch = &mut self.scratch;
        let ran = runs.with_state(|state| again.process_by(state, &mut shadow, packet, scratch));
        let failed = shadow.pins.failed;
        if !ran || !noted.is_begun_by(&shadow.noted, failed.is_none(), R::DECIDES_AS_INTERP) {
            self.stats.shadowed += 1;
            return Err(failed.unwrap_or(Unrewritable::Aborted));
        }
        self.by_shadow(runs, shadow, (came, left), (noted, true))
    }

    /// The rewrite of a packet by its shadow, and what that says of the packet's way, if the whole of it is noted.
    pub fn by_shadow<R: Runs>(
        &mut self,
        runs: &R,
        mut shadow: Shadow,
        (came, left): (Came<'_>, Left<'_>),
        (noted, whole): (&Noted, bool),
    ) -> Result<Made, Unrewritable> {
        self.stats.shadowed += 1;
        let by_value = shadow.pins.by_value;
        self.tenants.learn(shadow.place.take());
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
        let layout = share(&mut self.flows, &self.known.pipeline, &template, noted)?;
        let filling = Filling { flows: &mut self.flows, runs, row: &mut self.row };
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
}

/// A rewrite that was made: what it shares with others, and whether nobody else holds that.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    pub layout: u32,
    pub alone: bool,
}

/// Whether a hit in a table adds to something that anybody can see: a direct counter of v1model's, an idle time.
fn counts_hits(pipeline: &Pipeline, table: &ir::Table) -> bool {
    pipeline.arch == Arch::V1Model && table.direct_counter.is_some() || table.idle_timeout || table.add_on_miss
}

/// What rewrites of a template, whose packets are noted as this one, have in common: under which number it is kept.
fn share(flows: &mut Flows, pipeline: &Pipeline, template: &Template, noted: &Noted) -> Result<u32, Unrewritable> {
    let shape = flows.shape(&template.shape, template.head.is_some())?;
    let counts = |table: usize| counts_hits(pipeline, &pipeline.tables[TableId::from_index(table)]);
    let layout = Layout::new(template, (shape, flows.key_form(shape)), noted, counts)?;
    Ok(flows.share(layout))
}

/// Where a rewrite is made.
struct Filling<'f, R> {
    flows: &'f mut Flows,
    runs: &'f R,
    row: &'f mut Vec<u64>,
}

impl<R: Runs> Filling<'_, R> {
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
        template.fill((layout, key), packet, (noted, self.runs), reason, self.row)
    }
}
