//! Printing bodies.

use super::print::{Printer, quoted};
use super::resolve::Kind;
use super::words::Word;
use crate::body::*;
use crate::entity::Value;
use crate::pipeline::Control;

impl Printer<'_> {
    pub fn control(&mut self, control: &Control) {
        self.line(format_args!("control {} {} {{", quoted(&control.name), control.kind.word()));
        let body = &control.body;
        match body.entry {
            Some(entry) => self.line(format_args!("  entry {entry}")),
            None => self.line("  entry none"),
        }
        for state in &body.states {
            self.put(format_args!("  state {} {}", quoted(&state.name), state.block));
            self.loc(state.loc);
            self.line("");
        }
        self.unused(body);
        for (block, data) in body.blocks.iter() {
            self.put(block);
            if !data.params.is_empty() {
                self.put("(");
                self.list(&data.params, |p, v| p.definition(body, *v));
                self.put(")");
            }
            self.line(":");
            data.insts.iter().for_each(|i| self.instruction(body, i));
            if let Some(term) = &data.term {
                self.put("  ");
                self.term(&term.term);
                self.loc(term.loc);
                self.line("");
            }
        }
        self.line("}");
    }

    /// Values that nothing defines, so that numbers stay as they are. A pass drops them.
    fn unused(&mut self, body: &Body) {
        let mut defined = vec![false; body.values.len()];
        for data in body.blocks.values() {
            let results = data.insts.iter().flat_map(|i| &i.results);
            for value in data.params.iter().chain(results) {
                if let Some(slot) = defined.get_mut(value.0 as usize) {
                    *slot = true;
                }
            }
        }
        for ((value, _), _) in body.values.iter().zip(&defined).filter(|(_, d)| !**d) {
            self.put("  unused ");
            self.definition(body, value);
            self.line("");
        }
    }

    fn definition(&mut self, body: &Body, value: Value) {
        match body.values.get(value) {
            Some(ty) => self.typed(value, *ty),
            None => self.put(format_args!("{value}: ?")),
        }
    }

    fn instruction(&mut self, body: &Body, data: &InstData) {
        self.put("  ");
        if !data.results.is_empty() {
            self.list(&data.results, |p, v| p.definition(body, *v));
            self.put(" = ");
        }
        self.inst(&data.inst);
        self.loc(data.loc);
        if let Inst::Const(value) = &data.inst {
            self.constant_comment(value);
        }
        self.line("");
    }

    fn inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Const(value) => {
                self.put("const ");
                self.constant(value);
            }
            Inst::Load(var) => self.with_entity("load", Kind::Var, *var),
            Inst::Store(var, value) => {
                self.with_entity("store", Kind::Var, *var);
                self.put(format_args!(", {value}"));
            }
            Inst::Unary(op, a) => self.put(format_args!("{} {a}", op.word())),
            Inst::Binary(op, a, b) => self.put(format_args!("{} {a}, {b}", op.word())),
            Inst::Cast(ty, value) => {
                self.put("cast ");
                self.ty(*ty);
                self.put(format_args!(", {value}"));
            }
            Inst::Slice { value, hi, lo } => self.put(format_args!("slice {value}, {hi}, {lo}")),
            Inst::Concat(a, b) => self.put(format_args!("concat {a}, {b}")),
            Inst::Select { cond, then, els } => self.put(format_args!("select {cond}, {then}, {els}")),
            Inst::IsValid(h) => self.with_entity("is_valid", Kind::Header, *h),
            Inst::SetValid(h) => self.with_entity("set_valid", Kind::Header, *h),
            Inst::SetInvalid(h) => self.with_entity("set_invalid", Kind::Header, *h),
            Inst::CopyHeader { dst, src } => {
                self.with_entity("copy_header", Kind::Header, *dst);
                self.with_entity(",", Kind::Header, *src);
            }
            Inst::Extract(h) => self.with_entity("extract", Kind::Header, *h),
            Inst::ExtractVarbit(h, bits) => {
                self.with_entity("extract_varbit", Kind::Header, *h);
                self.put(format_args!(", {bits}"));
            }
            Inst::Advance(bits) => self.put(format_args!("advance {bits}")),
            Inst::Lookahead(ty) => {
                self.put("lookahead ");
                self.ty(*ty);
            }
            Inst::Verify(cond, error) => self.put(format_args!("verify {cond}, {error}")),
            Inst::PacketLength => self.put("packet_length"),
            Inst::InValueSet(set, keys) => {
                self.with_entity("in_value_set", Kind::ValueSet, *set);
                self.put(" ");
                self.values(keys);
            }
            Inst::Emit(h) => self.with_entity("emit", Kind::Header, *h),
            Inst::Extern { object, func, args } => {
                self.put(format_args!("call {} ", func.name()));
                if let Some(object) = object {
                    self.entity(Kind::Extern, *object);
                    self.put(" ");
                }
                self.put("(");
                self.list(args, |p, a| p.arg(a));
                self.put(")");
            }
        }
    }

    fn with_entity<E: crate::Entity + std::fmt::Display>(&mut self, word: &str, kind: Kind, entity: E) {
        self.put(format_args!("{word} "));
        self.entity(kind, entity);
    }

    fn values(&mut self, values: &[Value]) {
        self.put("(");
        self.list(values, |p, v| p.put(v));
        self.put(")");
    }

    fn arg(&mut self, arg: &Arg) {
        match arg {
            Arg::Value(v) => self.put(v),
            Arg::Values(values) => self.values(values),
            Arg::Str(text) => self.put(quoted(text)),
            Arg::Vars(vars) => {
                self.put("vars (");
                self.list(vars, |p, v| p.entity(Kind::Var, *v));
                self.put(")");
            }
            Arg::Table(table) => self.with_entity("table", Kind::Table, *table),
            Arg::Action(action) => self.with_entity("action", Kind::Action, *action),
        }
    }

    fn call(&mut self, call: &BlockCall) {
        self.put(call.block);
        if !call.args.is_empty() {
            self.values(&call.args);
        }
    }

    fn term(&mut self, term: &Term) {
        match term {
            Term::Jump(call) => {
                self.put("jump ");
                self.call(call);
            }
            Term::Branch { cond, then, els } => {
                self.put(format_args!("branch {cond}, "));
                self.call(then);
                self.put(", ");
                self.call(els);
            }
            Term::Switch { value, cases, default } => {
                self.line(format_args!("switch {value} {{"));
                for (constant, call) in cases {
                    self.put("    ");
                    self.constant(constant);
                    self.put(" => ");
                    self.call(call);
                    self.constant_comment(constant);
                    self.line("");
                }
                self.put("    _ => ");
                self.call(default);
                self.put("\n  }");
            }
            Term::Apply { table, keys, arms } => {
                self.with_entity("apply", Kind::Table, *table);
                self.put(" ");
                self.values(keys);
                self.line(" {");
                for arm in arms {
                    self.put("    ");
                    self.entity(Kind::Action, arm.action);
                    self.line(format_args!(" => {}", arm.block));
                }
                self.put("  }");
            }
            Term::Return => self.put("return"),
            Term::Exit => self.put("exit"),
            Term::Reject => self.put("reject"),
        }
    }
}
