//! What each programmable block of a pipeline names.

use ir::*;
use std::collections::BTreeSet;

/// What a block names.
#[derive(Default)]
pub(super) struct Mentions {
    /// Variables, not those of headers that are named as a whole.
    pub(super) vars: BTreeSet<VarId>,
    /// Headers, also by one of their fields.
    pub(super) headers: BTreeSet<HeaderId>,
    /// Tables that are applied.
    pub(super) tables: BTreeSet<TableId>,
    /// Extern objects, also by way of tables.
    pub(super) externs: BTreeSet<ExternId>,
    /// Value sets.
    pub(super) value_sets: BTreeSet<ValueSetId>,
}

impl Mentions {
    /// What a body names.
    pub(super) fn of(p: &Pipeline, body: &Body) -> Mentions {
        let mut found = Mentions::default();
        for block in body.blocks.values() {
            for data in &block.insts {
                found.inst(p, &data.inst);
            }
            if let Some(TermData { term: Term::Apply { table, .. }, .. }) = &block.term {
                found.table(p, *table);
            }
        }
        found
    }

    fn table(&mut self, p: &Pipeline, id: TableId) {
        self.tables.insert(id);
        let table = &p.tables[id];
        self.externs.extend([table.implementation, table.direct_counter, table.direct_meter].into_iter().flatten());
    }

    fn var(&mut self, p: &Pipeline, var: VarId) {
        self.vars.insert(var);
        if let VarKind::Field(header, _) = p.vars[var].kind {
            self.headers.insert(header);
        }
    }

    fn inst(&mut self, p: &Pipeline, inst: &Inst) {
        match inst {
            Inst::Load(var) | Inst::Store(var, _) => self.var(p, *var),
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
                    if let Arg::Vars(vars) = arg {
                        vars.iter().for_each(|v| self.var(p, *v));
                    }
                }
            }
            _ => {}
        }
    }
}
