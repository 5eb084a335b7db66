//! [`RewriteBuilder`]: builds rewrites from recorded packets.

use super::NotRewritable;
use super::backing_engine::BackingEngine;
use super::fill::{ReceivedPacket, ResultingPacket};
use super::flows::{FlowInsertion, FlowTable, PreparedFlow};
use super::form::window;
use super::layout::FlowLayout;
use super::path_record::PathRecord;
use super::paths::{PathInfo, PathTable};
use super::stats::RewriteStats;
use super::symbolic_executor::{ProgramFacts, SymbolicExecutor};
use super::template::RewriteTemplate;
use super::tenants::TenantExtractor;
use interp::{Config, Explainer, LoadError, Outputs};
use ir::{Arch, Entity, Pipeline, TableId};
use packet::Verdict;
use std::sync::Arc;

/// Builder of rewrites, with the known paths and the cached flows.
pub struct RewriteBuilder {
    pub facts: Arc<ProgramFacts>,
    pub flows: FlowTable,
    pub stats: RewriteStats,
    pub paths: PathTable,
    pub tenants: TenantExtractor,
    /// Repeats a packet under symbolic execution without side effects.
    pub repeater: Explainer,
    /// The last packet's path depends on values. The next packet starts under symbolic execution,
    /// which costs less than a repetition.
    pub starts_symbolically: bool,
    scratch: Outputs,
    /// Row of the last built rewrite.
    pub row: Vec<u64>,
}

impl RewriteBuilder {
    /// Creates a builder with a capacity in flows.
    pub fn new(facts: Arc<ProgramFacts>, config: Config, capacity: usize) -> Result<RewriteBuilder, LoadError> {
        let pipeline: &Arc<Pipeline> = &facts.pipeline;
        let repeater = Explainer::new(pipeline.clone(), config)?;
        let flows = FlowTable::new(pipeline, &facts.wildcard_trackers, capacity);
        Ok(RewriteBuilder {
            facts,
            flows,
            stats: RewriteStats::default(),
            paths: PathTable::default(),
            tenants: TenantExtractor::default(),
            repeater,
            starts_symbolically: false,
            scratch: Outputs::new(),
            row: Vec::new(),
        })
    }

    /// Prepares the last built rewrite for insertion.
    pub fn prepare_insertion(&mut self, built: BuiltRewrite, prepared: &mut PreparedFlow) {
        self.flows.prepare_insertion(&self.facts, (built.layout, &mut self.row), prepared);
    }

    /// Inserts a rewrite that was built from a packet with these bytes, received at `now`.
    ///
    /// # Errors
    /// No place is free.
    pub fn insert_rewrite(
        &mut self,
        built: BuiltRewrite,
        prepared: &PreparedFlow,
        (bytes, now): (&[u8], u64),
    ) -> Result<FlowInsertion, NotRewritable> {
        let insertion = self.flows.insert_flow(&self.facts, built.layout, prepared, (&window(bytes), now));
        self.drop_layout_reference(built);
        insertion
    }

    /// Drops the builder's reference to the layout.
    pub fn drop_layout_reference(&mut self, built: BuiltRewrite) {
        if built.holds_layout {
            self.flows.drop_layout(built.layout);
        }
    }

    /// Builds the rewrite of a recorded packet, received at `now` (ns), from its path's template,
    /// or else repeats the packet under symbolic execution. `resulting`: the packet that the engine
    /// made of it, or the reason why no rewrite can produce that.
    pub fn build_from_path<R: BackingEngine>(
        &mut self,
        backing: &R,
        (received, now): (ReceivedPacket<'_>, u64),
        resulting: Result<ResultingPacket<'_>, NotRewritable>,
        path_record: &PathRecord,
    ) -> Result<BuiltRewrite, NotRewritable> {
        let resulting = resulting?;
        if let Some(why) = path_record.unrepeatable {
            return Err(why);
        }
        match self.paths.get(path_record.decisions()) {
            _ if path_record.too_long => return Err(NotRewritable::Aborted),
            Some(PathInfo::Never(why)) => {
                self.stats.refused_by_path += 1;
                return Err(*why);
            }
            Some(PathInfo::Template(template, layout)) => {
                let layout = match layout {
                    Some(layout) => *layout,
                    None => *layout.insert(share_layout(&mut self.flows, &self.facts.pipeline, template, path_record)?),
                };
                let fill_context = FillContext { flows: &mut self.flows, backing, row: &mut self.row };
                // `false`: the template was built from another packet.
                if fill_context.fill_row(template, layout, (received, resulting, false), path_record).is_ok() {
                    self.stats.from_template += 1;
                    return Ok(BuiltRewrite { layout, holds_layout: false });
                }
            }
            Some(PathInfo::ByValue) | None => {}
        }
        let mut executor = SymbolicExecutor::new(&self.facts, received.bytes, self.tenants.slot);
        let packet = (received.bytes, received.port, now);
        let (repeater, scratch) = (&mut self.repeater, &mut self.scratch);
        let has_run = backing.with_state(|state| repeater.process_by(state, &mut executor, packet, scratch));
        let failed = executor.constraints.failed;
        // A repetition that took another path does not explain the result.
        if !has_run || !path_record.is_extension_of(&executor.path_record, failed.is_none(), R::DECIDES_AS_INTERP) {
            self.stats.symbolic_runs += 1;
            return Err(failed.unwrap_or(NotRewritable::Aborted));
        }
        self.build_symbolically(backing, executor, (received, resulting), (path_record, true))
    }

    /// Builds the rewrite of a packet from its symbolic execution. If the record is complete
    /// (`is_complete`), also stores the template of the path.
    pub fn build_symbolically<R: BackingEngine>(
        &mut self,
        backing: &R,
        mut executor: SymbolicExecutor,
        (received, resulting): (ReceivedPacket<'_>, ResultingPacket<'_>),
        (path_record, is_complete): (&PathRecord, bool),
    ) -> Result<BuiltRewrite, NotRewritable> {
        self.stats.symbolic_runs += 1;
        let depends_on_values = executor.constraints.depends_on_values;
        self.tenants.add_position(executor.tenant_bits.take());
        self.starts_symbolically = depends_on_values;
        let template = executor.into_template(matches!(resulting.verdict, Verdict::Forward { .. }));
        if is_complete && !path_record.too_long && self.paths.get(path_record.decisions()).is_none() {
            match &template {
                _ if depends_on_values => self.paths.insert_path(path_record.decisions(), PathInfo::ByValue),
                Ok(template) => self
                    .paths
                    .insert_path(path_record.decisions(), PathInfo::Template(Box::new(template.clone()), None)),
                Err(why) if why.holds_for_path() => {
                    self.paths.insert_path(path_record.decisions(), PathInfo::Never(*why))
                }
                Err(_) => {}
            }
        }
        let template = template?;
        let layout = share_layout(&mut self.flows, &self.facts.pipeline, &template, path_record)?;
        let fill_context = FillContext { flows: &mut self.flows, backing, row: &mut self.row };
        let filled = fill_context.fill_row(&template, layout, (received, resulting, true), path_record);
        // The rewrite must reproduce the result of the packet that the template was built from
        // (`true`).
        self.stats.faults += u64::from(matches!(filled, Err(NotRewritable::Aborted)));
        match filled {
            Ok(()) => Ok(BuiltRewrite { layout, holds_layout: true }),
            Err(why) => {
                self.flows.drop_layout(layout);
                Err(why)
            }
        }
    }
}

/// Built rewrite: layout, and whether the builder holds a reference to it.
#[derive(Clone, Copy, Debug)]
pub struct BuiltRewrite {
    pub layout: u32,
    pub holds_layout: bool,
}

/// Returns whether a hit in the table has an observable effect: a direct counter of v1model, or an
/// idle timer.
fn counts_hits(pipeline: &Pipeline, table: &ir::Table) -> bool {
    pipeline.arch == Arch::V1Model && table.direct_counter.is_some() || table.idle_timeout || table.add_on_miss
}

/// Returns the number of the layout of a template's rewrites, given the record of one packet.
fn share_layout(
    flows: &mut FlowTable,
    pipeline: &Pipeline,
    template: &RewriteTemplate,
    path_record: &PathRecord,
) -> Result<u32, NotRewritable> {
    let key_mask = flows.key_mask_number(&template.key_mask, template.header.is_some())?;
    let counts = |table: usize| counts_hits(pipeline, &pipeline.tables[TableId::from_index(table)]);
    let layout = FlowLayout::new(template, (key_mask, flows.key_extractor(key_mask)), path_record, counts)?;
    Ok(flows.share_layout(layout))
}

/// Arguments of filling a row.
struct FillContext<'f, R> {
    flows: &'f mut FlowTable,
    backing: &'f R,
    row: &'f mut Vec<u64>,
}

impl<R: BackingEngine> FillContext<'_, R> {
    /// Fills the row with the rewrite of a packet: received and resulting packet, and whether the
    /// template was built from this packet.
    fn fill_row(
        self,
        template: &RewriteTemplate,
        layout: u32,
        packet: (ReceivedPacket<'_>, ResultingPacket<'_>, bool),
        path_record: &PathRecord,
    ) -> Result<(), NotRewritable> {
        let reason = match packet.1.verdict {
            Verdict::Drop(reason) => self.flows.reason_number(reason),
            _ => 0,
        };
        let layout = self.flows.layout(layout);
        let key = self.flows.key_extractor(layout.key_mask);
        template.fill_row((layout, key), packet, (path_record, self.backing), reason, self.row)
    }
}
