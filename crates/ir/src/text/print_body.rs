//! Printer of bodies.

use super::keywords::KeywordEnum;
use super::print::{TextPrinter, quote_string};
use super::resolve::EntityKind;
use crate::body::*;
use crate::entity::Value;
use crate::pipeline::Control;

impl TextPrinter<'_> {
    /// Prints a control: entry block, parser states, then its blocks with their instructions.
    pub fn print_control(&mut self, control: &Control) {
        self.write_line(format_args!("control {} {} {{", quote_string(&control.name), control.kind.keyword()));
        let body = &control.body;
        match body.entry {
            Some(entry) => self.write_line(format_args!("  entry {entry}")),
            None => self.write_line("  entry none"),
        }
        for state in &body.states {
            self.write_text(format_args!("  state {} {}", quote_string(&state.name), state.block));
            self.print_loc(state.loc);
            self.write_line("");
        }
        self.print_unused_values(body);
        for (block, data) in body.blocks.iter() {
            self.write_text(block);
            if !data.params.is_empty() {
                self.write_text("(");
                self.print_list(&data.params, |p, v| p.print_definition(body, *v));
                self.write_text(")");
            }
            self.write_line(":");
            data.insts.iter().for_each(|i| self.print_instruction(body, i));
            if let Some(term) = &data.term {
                self.write_text("  ");
                self.print_terminator(&term.term);
                self.print_loc(term.loc);
                self.write_line("");
            }
        }
        self.write_line("}");
    }

    /// Prints values without a definition, so that the numbering is preserved. A pass drops them.
    fn print_unused_values(&mut self, body: &Body) {
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
            self.write_text("  unused ");
            self.print_definition(body, value);
            self.write_line("");
        }
    }

    fn print_definition(&mut self, body: &Body, value: Value) {
        match body.values.get(value) {
            Some(ty) => self.print_typed(value, *ty),
            None => self.write_text(format_args!("{value}: ?")),
        }
    }

    fn print_instruction(&mut self, body: &Body, data: &InstData) {
        self.write_text("  ");
        if !data.results.is_empty() {
            self.print_list(&data.results, |p, v| p.print_definition(body, *v));
            self.write_text(" = ");
        }
        self.print_inst(&data.inst);
        self.print_loc(data.loc);
        if let Inst::Const(value) = &data.inst {
            self.print_constant_comment(value);
        }
        self.write_line("");
    }

    /// Prints an instruction without its results.
    fn print_inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Const(value) => {
                self.write_text("const ");
                self.print_constant(value);
            }
            Inst::Load(var) => self.print_with_entity("load", EntityKind::Var, *var),
            Inst::Store(var, value) => {
                self.print_with_entity("store", EntityKind::Var, *var);
                self.write_text(format_args!(", {value}"));
            }
            Inst::Unary(op, a) => self.write_text(format_args!("{} {a}", op.keyword())),
            Inst::Binary(op, a, b) => self.write_text(format_args!("{} {a}, {b}", op.keyword())),
            Inst::Cast(ty, value) => {
                self.write_text("cast ");
                self.print_type(*ty);
                self.write_text(format_args!(", {value}"));
            }
            Inst::Slice { value, hi, lo } => self.write_text(format_args!("slice {value}, {hi}, {lo}")),
            Inst::Concat(a, b) => self.write_text(format_args!("concat {a}, {b}")),
            Inst::Select { cond, then, els } => self.write_text(format_args!("select {cond}, {then}, {els}")),
            Inst::IsValid(h) => self.print_with_entity("is_valid", EntityKind::Header, *h),
            Inst::SetValid(h) => self.print_with_entity("set_valid", EntityKind::Header, *h),
            Inst::SetInvalid(h) => self.print_with_entity("set_invalid", EntityKind::Header, *h),
            Inst::CopyHeader { dst, src } => {
                self.print_with_entity("copy_header", EntityKind::Header, *dst);
                self.print_with_entity(",", EntityKind::Header, *src);
            }
            Inst::Extract(h) => self.print_with_entity("extract", EntityKind::Header, *h),
            Inst::ExtractVarbit(h, bits) => {
                self.print_with_entity("extract_varbit", EntityKind::Header, *h);
                self.write_text(format_args!(", {bits}"));
            }
            Inst::Advance(bits) => self.write_text(format_args!("advance {bits}")),
            Inst::Lookahead(ty) => {
                self.write_text("lookahead ");
                self.print_type(*ty);
            }
            Inst::Verify(cond, error) => self.write_text(format_args!("verify {cond}, {error}")),
            Inst::PacketLength => self.write_text("packet_length"),
            Inst::InValueSet(set, keys) => {
                self.print_with_entity("in_value_set", EntityKind::ValueSet, *set);
                self.write_text(" ");
                self.print_values(keys);
            }
            Inst::Emit(h) => self.print_with_entity("emit", EntityKind::Header, *h),
            Inst::Extern { object, func, args } => {
                self.write_text(format_args!("call {} ", func.name()));
                if let Some(object) = object {
                    self.print_entity(EntityKind::Extern, *object);
                    self.write_text(" ");
                }
                self.write_text("(");
                self.print_list(args, |p, a| p.print_arg(a));
                self.write_text(")");
            }
        }
    }

    fn print_with_entity<E: crate::Entity + std::fmt::Display>(&mut self, word: &str, kind: EntityKind, entity: E) {
        self.write_text(format_args!("{word} "));
        self.print_entity(kind, entity);
    }

    fn print_values(&mut self, values: &[Value]) {
        self.write_text("(");
        self.print_list(values, |p, v| p.write_text(v));
        self.write_text(")");
    }

    fn print_arg(&mut self, arg: &ExternArg) {
        match arg {
            ExternArg::Value(v) => self.write_text(v),
            ExternArg::Values(values) => self.print_values(values),
            ExternArg::Str(text) => self.write_text(quote_string(text)),
            ExternArg::Vars(vars) => {
                self.write_text("vars (");
                self.print_list(vars, |p, v| p.print_entity(EntityKind::Var, *v));
                self.write_text(")");
            }
            ExternArg::Table(table) => self.print_with_entity("table", EntityKind::Table, *table),
            ExternArg::Action(action) => self.print_with_entity("action", EntityKind::Action, *action),
        }
    }

    fn print_block_call(&mut self, call: &BlockCall) {
        self.write_text(call.block);
        if !call.args.is_empty() {
            self.print_values(&call.args);
        }
    }

    /// Prints a terminator; a switch or table application has one line for each case or arm.
    fn print_terminator(&mut self, term: &Terminator) {
        match term {
            Terminator::Jump(call) => {
                self.write_text("jump ");
                self.print_block_call(call);
            }
            Terminator::Branch { cond, then, els } => {
                self.write_text(format_args!("branch {cond}, "));
                self.print_block_call(then);
                self.write_text(", ");
                self.print_block_call(els);
            }
            Terminator::Switch { value, cases, default } => {
                self.write_line(format_args!("switch {value} {{"));
                for (constant, call) in cases {
                    self.write_text("    ");
                    self.print_constant(constant);
                    self.write_text(" => ");
                    self.print_block_call(call);
                    self.print_constant_comment(constant);
                    self.write_line("");
                }
                self.write_text("    _ => ");
                self.print_block_call(default);
                self.write_text("\n  }");
            }
            Terminator::Apply { table, keys, arms } => {
                self.print_with_entity("apply", EntityKind::Table, *table);
                self.write_text(" ");
                self.print_values(keys);
                self.write_line(" {");
                for arm in arms {
                    self.write_text("    ");
                    self.print_entity(EntityKind::Action, arm.action);
                    self.write_line(format_args!(" => {}", arm.block));
                }
                self.write_text("  }");
            }
            Terminator::Return => self.write_text("return"),
            Terminator::Exit => self.write_text("exit"),
            Terminator::Reject => self.write_text("reject"),
        }
    }
}
