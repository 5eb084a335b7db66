//! Objects that each programmable block of a pipeline refers to.

use ir::*;
use std::collections::BTreeSet;

/// Objects that a block refers to.
#[derive(Default)]
pub(super) struct Mentions {
    /// Variables, without the fields of headers that are used as a whole.
    pub(super) vars: BTreeSet<VarId>,
    /// Headers, including those of accessed fields.
    pub(super) headers: BTreeSet<HeaderId>,
    /// Applied tables.
    pub(super) tables: BTreeSet<TableId>,
    /// Extern objects, including those of applied tables.
    pub(super) externs: BTreeSet<ExternId>,
    /// Value sets.
    pub(super) value_sets: BTreeSet<ValueSetId>,
}

impl Mentions {
    /// Collects the objects that a body refers to.
    pub(super) fn collect(p: &Pipeline, body: &Body) -> Mentions {
        let mut found = Mentions::default();
        for block in body.blocks.values() {
            for data in &block.insts {
                found.collect_inst(p, &data.inst);
            }
            if let Some(TerminatorData { term: Terminator::Apply { table, .. }, .. }) = &block.term {
                found.collect_table(p, *table);
            }
        }
        found
    }

    fn collect_table(&mut self, p: &Pipeline, id: TableId) {
        self.tables.insert(id);
        let table = &p.tables[id];
        self.externs.extend([table.implementation, table.direct_counter, table.direct_meter].into_iter().flatten());
    }

    fn collect_var(&mut self, p: &Pipeline, var: VarId) {
        self.vars.insert(var);
        if let VarKind::Field(header, _) = p.vars[var].kind {
            self.headers.insert(header);
        }
    }

    /// Adds the objects that an instruction refers to.
    fn collect_inst(&mut self, p: &Pipeline, inst: &Inst) {
        match inst {
            Inst::Load(var) | Inst::Store(var, _) => self.collect_var(p, *var),
            Inst::IsValid(h)
            | Inst::SetValid(h)
            | Inst::SetInvalid(h)
            | Inst::Extract(h)
            | Inst::ExtractVarbit(h, _)
            | Inst::Emit(h) => {
                self.headers.insert(*h);
            }
            Inst::CopyHeader { dst, src } => self.headers.extend([*dst, *src]),
            Inst::InValueSet(set, _) => {
                self.value_sets.insert(*set);
            }
            Inst::Extern { object, args, .. } => {
                self.externs.extend(object.iter().copied());
                for arg in args {
                    if let ExternArg::Vars(vars) = arg {
                        vars.iter().for_each(|v| self.collect_var(p, *v));
                    }
                }
            }
            _ => {}
        }
    }
}
