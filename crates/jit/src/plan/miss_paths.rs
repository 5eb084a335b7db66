//! [`MissPath`]: the stages that only packets reach that missed a table.
//!
//! A program may apply a table that packets write twice. Packets of known flows hit and go on. A packet
//! that misses asks other tables, and applies the table again to add its entry:
//!
//! ```text
//! if (flows.apply().miss) {
//!     rules.apply();
//!     if (allowed) { flows.apply(); }
//! }
//! ```
//!
//! Both lookups need the entries that earlier packets have added. As hits do not reach the second one,
//! only packets that miss have to pass these stages in their order
//! ([`crate::analysis::miss_regions`]).

use crate::analysis::miss_regions::{MissPath, MissPaths};
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::worklist::reverse_postorder;
use crate::plan::StagePlan;
use crate::plan::stages::{StageEntry, arm_nodes, successors_in_stage};
use fixedbitset::FixedBitSet;
use ir::{Block, Body, Cfg, ExternArg, Inst, Pipeline, TableId, Terminator, Value, VarId, VarKind};
use std::collections::BTreeSet;

/// Returns the paths behind the misses of these stages, each with the table that packets write.
pub fn find_miss_paths(pipeline: &Pipeline, plan: &StagePlan, written_lookups: &[(usize, TableId)]) -> MissPaths {
    let next_stages = (0..plan.stages.len()).map(|stage| plan.next_stages(pipeline, stage)).collect();
    let graph = PathGraph { pipeline, plan, next_stages };
    let path = |(entry, table): &(usize, TableId)| {
        let stages = graph.stages_behind_misses(*entry);
        (!stages.is_clear()).then(|| MissPath {
            entry: *entry,
            table: *table,
            same_key_stages: graph.same_key_stages(*entry, *table, &stages),
            stages,
        })
    };
    let paths = written_lookups.iter().filter_map(path).collect();
    MissPaths { paths, next_stages: graph.next_stages }
}

struct PathGraph<'a> {
    pipeline: &'a Pipeline,
    plan: &'a StagePlan,
    /// The successors of each stage.
    next_stages: Vec<BTreeSet<usize>>,
}

impl PathGraph<'_> {
    /// Returns the stages that a packet reaches only if it missed at the entry of stage `entry`.
    fn stages_behind_misses(&self, entry: usize) -> FixedBitSet {
        let mut others = FixedBitSet::with_capacity(self.plan.stages.len());
        let mut work: Vec<usize> =
            (0..self.plan.stages.len()).filter(|stage| self.plan.stages[*stage].start == StageEntry::Begin).collect();
        while let Some(stage) = work.pop() {
            if !others.put(stage) {
                match stage == entry {
                    true => {
                        let nodes = self.nodes_behind(entry, true);
                        work.extend(self.plan.stages_behind(self.pipeline, entry, &nodes));
                    }
                    false => work.extend(&self.next_stages[stage]),
                }
            }
        }
        others.insert(entry);
        others.toggle_range(..);
        others
    }

    /// Returns the nodes of a stage behind a hit, or behind a miss, of its lookup.
    fn nodes_behind(&self, stage: usize, hit: bool) -> Vec<FlowNodeId> {
        let start = self.plan.stages[stage].start;
        let StageEntry::Table(node, table) = start else { return Vec::new() };
        let table = &self.pipeline.tables[table];
        let first = arm_nodes(self.pipeline, &self.plan.flow, node, |arm| {
            table.known_hit(arm.action).is_none_or(|known| known == hit)
        });
        reverse_postorder(&self.plan.flow, first, |node| {
            successors_in_stage(self.pipeline, &self.plan.flow, start, node)
        })
    }

    fn terminator(&self, node: FlowNodeId) -> Option<&Terminator> {
        let data = self.plan.flow.block_data(self.pipeline, node)?;
        data.term.as_ref().map(|term| &term.term)
    }

    /// Returns the stages among `behind` that look up the key that a packet had at `entry`, in the
    /// same table.
    fn same_key_stages(&self, entry: usize, table: TableId, behind: &FixedBitSet) -> FixedBitSet {
        let mut same = FixedBitSet::with_capacity(self.plan.stages.len());
        let mut nodes = self.nodes_behind(entry, false);
        nodes.extend(behind.ones().flat_map(|stage| &self.plan.stages[stage].nodes));
        let StageEntry::Table(first, _) = self.plan.stages[entry].start else { return same };
        for stage in behind.ones() {
            if let StageEntry::Table(second, other) = self.plan.stages[stage].start
                && other == table
                && self.has_same_key(first, second, &nodes)
            {
                same.insert(stage);
            }
        }
        same
    }

    /// Returns whether the lookups at the ends of two nodes have the same key, if only code of `nodes` is
    /// between them.
    fn has_same_key(&self, first: FlowNodeId, second: FlowNodeId, nodes: &[FlowNodeId]) -> bool {
        let (NodeKind::Block(control, block), NodeKind::Block(other, _)) =
            (self.plan.flow.nodes[first], self.plan.flow.nodes[second])
        else {
            return false;
        };
        let (Some(Terminator::Apply { keys: before, .. }), Some(Terminator::Apply { keys: after, .. })) =
            (self.terminator(first), self.terminator(second))
        else {
            return false;
        };
        let body = &self.pipeline.controls[ir::ControlId(control as u32)].body;
        control == other
            && before.iter().zip(after).all(|(before, after)| {
                before == after
                    || self.loaded_variable(*after, nodes).is_some_and(|var| {
                        self.is_unchanged(var, nodes) && holds_value(self.pipeline, body, block, var, *before)
                    })
            })
    }

    /// Returns the variable that a value is loaded from by one of these nodes.
    fn loaded_variable(&self, value: Value, nodes: &[FlowNodeId]) -> Option<VarId> {
        let blocks = nodes.iter().filter_map(|node| self.plan.flow.block_data(self.pipeline, *node));
        let inst = blocks.flat_map(|block| &block.insts).find(|inst| inst.results.contains(&value))?;
        if let Inst::Load(var) = inst.inst { Some(var) } else { None }
    }

    fn is_unchanged(&self, var: VarId, nodes: &[FlowNodeId]) -> bool {
        let blocks = nodes.iter().filter_map(|node| self.plan.flow.block_data(self.pipeline, *node));
        is_own_variable(self.pipeline, var)
            && !blocks.flat_map(|block| &block.insts).any(|inst| may_change(self.pipeline, &inst.inst, var))
    }
}

/// Returns whether a variable has a value at the end of a block, as far as the code before it in a
/// straight line shows.
fn holds_value(pipeline: &Pipeline, body: &Body, block: Block, var: VarId, value: Value) -> bool {
    let (cfg, mut at) = (Cfg::new(body), block);
    // No longer than a path without a loop.
    for _ in 0..body.blocks.len() {
        for inst in body.blocks[at].insts.iter().rev() {
            match &inst.inst {
                Inst::Store(to, stored) if *to == var => {
                    return *stored == value && !matches!(pipeline.vars[var].kind, VarKind::Field(..));
                }
                Inst::Load(from) if *from == var && inst.results.contains(&value) => return true,
                inst if may_change(pipeline, inst, var) => return false,
                _ => {}
            }
        }
        match cfg.predecessors(at) {
            [only] if Some(at) != body.entry => at = *only,
            _ => return false,
        }
    }
    false
}

/// Returns whether only the program's code writes a variable.
fn is_own_variable(pipeline: &Pipeline, var: VarId) -> bool {
    pipeline.vars[var].kind != VarKind::Intrinsic
        && !pipeline.tables.values().any(|table| table.meter_result == Some(var))
}

/// Returns whether an instruction may change a variable of the program.
fn may_change(pipeline: &Pipeline, inst: &Inst, var: VarId) -> bool {
    let is_field = matches!(pipeline.vars[var].kind, VarKind::Field(..));
    match inst {
        Inst::Store(to, _) => *to == var,
        Inst::SetValid(_)
        | Inst::SetInvalid(_)
        | Inst::CopyHeader { .. }
        | Inst::Extract(_)
        | Inst::ExtractVarbit(..) => is_field,
        Inst::Extern { args, .. } => args.iter().any(|arg| matches!(arg, ExternArg::Vars(vars) if vars.contains(&var))),
        _ => false,
    }
}
