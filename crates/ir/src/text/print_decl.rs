//! Printer of declarations.

use super::keywords::KeywordEnum;
use super::print::{TextPrinter, bare_or_quoted, dollar_name, format_number, quote_string};
use super::resolve::EntityKind;
use crate::entity::VarId;
use crate::pipeline::*;
use crate::table::{Action, ActionCall, ConstEntry, KeyMatch, MatchKey, Param, Table};
use crate::types::Type;

impl TextPrinter<'_> {
    /// Prints the pipeline: each kind of declaration in the order of its indices, controls last.
    pub fn print_pipeline(&mut self) {
        let pipeline = self.pipeline;
        self.write_line(format_args!("pipeline {} {}", quote_string(&pipeline.name), pipeline.arch.keyword()));
        for annotation in &pipeline.annotations {
            self.write_line(format_args!("annotation {}", quote_string(annotation)));
        }
        for file in &pipeline.files {
            self.write_line(format_args!("file {}", quote_string(file)));
        }
        self.print_names_in_braces("errors", &pipeline.errors);
        for e in pipeline.enums.values() {
            self.print_names_in_braces(&format!("enum {}", dollar_name(&e.name)), &e.members);
        }
        pipeline.header_types.values().for_each(|t| self.print_header_type(t));
        pipeline.vars.values().for_each(|v| self.print_var(v));
        pipeline.headers.values().for_each(|h| self.print_header(h));
        for s in pipeline.stacks.values() {
            self.write_text(format_args!("stack {} next ", dollar_name(&s.name)));
            self.print_entity(EntityKind::Var, s.next);
            self.write_text(" { ");
            self.print_list(&s.elements, |printer, h| printer.print_entity(EntityKind::Header, *h));
            self.write_line(" }");
        }
        for u in pipeline.unions.values() {
            self.write_text(format_args!("union {} {{ ", dollar_name(&u.name)));
            self.print_list(&u.members, |printer, h| printer.print_entity(EntityKind::Header, *h));
            self.write_line(" }");
        }
        for (name, var) in &pipeline.intrinsics {
            self.write_text(format_args!("intrinsic {} = ", quote_string(name)));
            self.print_entity(EntityKind::Var, *var);
            self.write_line("");
        }
        for (number, vars) in &pipeline.field_lists {
            self.write_text(format_args!("field_list {number} {{ "));
            self.print_list(vars, |printer, v| printer.print_entity(EntityKind::Var, *v));
            self.write_line(" }");
        }
        pipeline.named_types.iter().for_each(|(name, ty)| self.print_named_type(name, ty));
        for (name, strings) in &pipeline.mappings {
            self.write_text(format_args!("mapping {} {{ ", quote_string(name)));
            self.print_list(strings, |printer, (string, value)| {
                printer.write_text(format_args!("{} = {}", quote_string(string), format_number(value)))
            });
            self.write_line(" }");
        }
        pipeline.controller_headers.iter().for_each(|h| self.print_controller_header(h));
        for e in pipeline.externs.values() {
            self.write_text(format_args!("extern {}: ", dollar_name(&e.preamble.name)));
            self.print_extern_kind(&e.kind);
            self.print_preamble(&e.preamble);
            self.print_loc(e.loc);
            self.write_line("");
        }
        pipeline.value_sets.values().for_each(|s| self.print_value_set(s));
        pipeline.actions.values().for_each(|a| self.print_action(a));
        pipeline.tables.values().for_each(|t| self.print_table(t));
        pipeline.controls.values().for_each(|c| self.print_control(c));
    }

    fn print_names_in_braces(&mut self, head: &str, names: &[String]) {
        self.write_text(format_args!("{head} {{ "));
        self.print_list(names, |p, n| p.write_text(bare_or_quoted(n)));
        self.write_line(" }");
    }

    fn print_header_type(&mut self, ty: &HeaderType) {
        self.write_line(format_args!("header_type {} {{", dollar_name(&ty.name)));
        for field in &ty.fields {
            self.write_text(format_args!("  {}: ", bare_or_quoted(&field.name)));
            self.print_type(field.ty);
            self.write_line("");
        }
        self.write_line("}");
    }

    /// Prints a variable with its type and its role, for example `var $x: bit<8> local`.
    fn print_var(&mut self, var: &Var) {
        self.write_text(format_args!("var {}: ", dollar_name(&var.name)));
        self.print_type(var.ty);
        match var.kind {
            VarKind::Field(header, n) => {
                self.write_text(" field ");
                self.print_entity(EntityKind::Header, header);
                self.write_text(format_args!(" {n}"));
            }
            VarKind::Meta => self.write_text(" meta"),
            VarKind::Intrinsic => self.write_text(" intrinsic"),
            VarKind::Local => self.write_text(" local"),
            VarKind::NextIndex(stack) => {
                self.write_text(" next_index ");
                self.print_entity(EntityKind::Stack, stack);
            }
        }
        self.print_loc(var.loc);
        self.write_line("");
    }

    fn print_header(&mut self, header: &Header) {
        self.write_text(format_args!("header {}: ", dollar_name(&header.name)));
        self.print_entity(EntityKind::HeaderType, header.ty);
        self.write_text(" { ");
        let runs = consecutive_runs(&header.fields);
        self.print_list(runs, |p, (first, last)| {
            p.print_entity(EntityKind::Var, first);
            if first != last {
                p.write_text(" .. ");
                p.print_entity(EntityKind::Var, last);
            }
        });
        self.write_text(" }");
        if let Some(union) = header.union {
            self.write_text(" union ");
            self.print_entity(EntityKind::Union, union);
        }
        self.write_line(if header.local { " local" } else { "" });
    }

    /// Prints a named type of the control plane with its members and annotations.
    fn print_named_type(&mut self, name: &str, ty: &NamedType) {
        self.write_text(format_args!("type {} ", quote_string(name)));
        match ty {
            NamedType::Struct(members) | NamedType::Header(members) => {
                self.write_text(if matches!(ty, NamedType::Struct(_)) { "struct { " } else { "header { " });
                self.print_list(members, |p, (name, ty)| {
                    p.write_text(format_args!("{}: ", bare_or_quoted(name)));
                    p.print_data_type(ty);
                });
                self.write_text(" }");
            }
            NamedType::Union(members) => {
                self.write_text("union { ");
                self.print_list(members, |p, (name, header)| {
                    p.write_text(format_args!("{}: {}", bare_or_quoted(name), quote_string(header)));
                });
                self.write_text(" }");
            }
            NamedType::Enum(members) => {
                self.write_text("enum { ");
                self.print_list(members, |p, m| p.write_text(bare_or_quoted(m)));
                self.write_text(" }");
            }
            NamedType::SerializableEnum(width, members) => {
                self.write_text(format_args!("serializable_enum {width} {{ "));
                self.print_list(members, |p, (m, v)| {
                    p.write_text(format_args!("{} = {}", bare_or_quoted(m), format_number(v)))
                });
                self.write_text(" }");
            }
            NamedType::NewType(ty, translation) => {
                self.write_text("new_type ");
                self.print_data_type(ty);
                match translation {
                    Some((uri, Some(width))) => {
                        self.write_text(format_args!(" translated {} {width}", quote_string(uri)))
                    }
                    Some((uri, None)) => self.write_text(format_args!(" translated {} string", quote_string(uri))),
                    None => {}
                }
            }
        }
        self.print_annotations(self.pipeline.type_annotations.get(name).map_or(&[], Vec::as_slice));
        self.write_line("");
    }

    fn print_controller_header(&mut self, header: &ControllerHeader) {
        self.write_text(format_args!("controller_header {} ", quote_string(&header.preamble.name)));
        self.print_entity(EntityKind::HeaderType, header.header);
        self.print_params(&header.fields);
        self.print_preamble(&header.preamble);
        self.write_line("");
    }

    fn print_value_set(&mut self, set: &ValueSet) {
        self.write_text(format_args!("value_set {} size {}", dollar_name(&set.preamble.name), set.size));
        self.print_preamble(&set.preamble);
        self.print_loc(set.loc);
        self.write_line(" {");
        set.keys.iter().for_each(|k| self.print_key(k));
        self.write_line("}");
    }

    fn print_key(&mut self, key: &MatchKey) {
        self.write_text(format_args!("  key {}: ", quote_string(&key.name)));
        self.print_type(key.ty);
        self.write_text(format_args!(" {}", key.kind.keyword()));
        self.print_attributes(&key.type_name, key.id, &key.annotations);
        self.write_line("");
    }

    fn print_attributes(&mut self, type_name: &Option<String>, id: u32, annotations: &[String]) {
        if let Some(name) = type_name {
            self.write_text(format_args!(" type {}", quote_string(name)));
        }
        if id != 0 {
            self.write_text(format_args!(" id {id}"));
        }
        self.print_annotations(annotations);
    }

    fn print_params(&mut self, params: &[Param]) {
        self.write_text(" (");
        self.print_list(params, |p, param| {
            p.write_text(format_args!("{}: ", bare_or_quoted(&param.name)));
            p.print_type(param.ty);
            p.print_attributes(&param.type_name, param.id, &param.annotations);
        });
        self.write_text(")");
    }

    fn print_action(&mut self, action: &Action) {
        self.write_text(format_args!("action {}", dollar_name(&action.preamble.name)));
        self.print_params(&action.params);
        self.print_preamble(&action.preamble);
        self.print_loc(action.loc);
        self.write_line("");
    }

    fn print_action_call(&mut self, call: &ActionCall) {
        self.print_entity(EntityKind::Action, call.action);
        self.write_text("(");
        self.print_list(&call.args, |p, a| p.write_text(format_number(a)));
        self.write_text(")");
    }

    /// Prints a table: keys, actions, default action, properties and entries, one a line.
    fn print_table(&mut self, table: &Table) {
        self.write_text(format_args!("table {}", dollar_name(&table.preamble.name)));
        self.print_preamble(&table.preamble);
        self.print_loc(table.loc);
        self.write_line(" {");
        table.keys.iter().for_each(|k| self.print_key(k));
        for action in &table.actions {
            self.write_text("  action ");
            self.print_entity(EntityKind::Action, action.action);
            self.write_text(if action.table_only { " table_only" } else { "" });
            self.write_text(if action.default_only { " default_only" } else { "" });
            self.print_annotations(&action.annotations);
            self.write_line("");
        }
        self.write_text(if table.const_default { "  default const " } else { "  default " });
        self.print_action_call(&table.default_action);
        self.write_line("");
        if let Some(size) = table.size {
            self.write_line(format_args!("  size {size}"));
        }
        self.print_table_externs(table);
        for (is_set, keyword) in [
            (table.add_on_miss, "add_on_miss"),
            (table.idle_timeout, "idle_timeout"),
            (table.const_entries, "const_entries"),
        ] {
            if is_set {
                self.write_line(format_args!("  {keyword}"));
            }
        }
        for (name, text) in &table.properties {
            self.write_line(format_args!("  property {} {}", quote_string(name), quote_string(text)));
        }
        table.entries.iter().for_each(|e| self.print_entry(e));
        self.write_line("}");
    }

    fn print_table_externs(&mut self, table: &Table) {
        for (word, object) in [
            ("implementation", table.implementation),
            ("direct_counter", table.direct_counter),
            ("direct_meter", table.direct_meter),
        ] {
            if let Some(object) = object {
                self.write_text(format_args!("  {word} "));
                self.print_entity(EntityKind::Extern, object);
                self.write_line("");
            }
        }
        if let Some(var) = table.meter_result {
            self.write_text("  meter_result ");
            self.print_entity(EntityKind::Var, var);
            self.write_line("");
        }
    }

    fn print_entry(&mut self, entry: &ConstEntry) {
        self.write_text("  entry (");
        self.print_list(&entry.keys, |p, k| p.print_key_match(k));
        self.write_text(") => ");
        self.print_action_call(&entry.action);
        if entry.priority != 0 {
            self.write_text(format_args!(" priority {}", entry.priority));
        }
        self.write_text(if entry.is_const { " const" } else { "" });
        self.print_loc(entry.loc);
        self.write_line("");
    }

    fn print_key_match(&mut self, key: &KeyMatch) {
        match key {
            KeyMatch::Exact(v) => self.write_text(format_number(v)),
            KeyMatch::Ternary { value, mask } => {
                self.write_text(format_args!("{} &&& {}", format_number(value), format_number(mask)));
            }
            KeyMatch::Lpm { value, prefix_len } => {
                self.write_text(format_args!("{} / {prefix_len}", format_number(value)))
            }
            KeyMatch::Range { lo, hi } => {
                self.write_text(format_args!("{} .. {}", format_number(lo), format_number(hi)))
            }
            KeyMatch::Optional(Some(v)) => self.write_text(format_args!("some {}", format_number(v))),
            KeyMatch::Optional(None) => self.write_text("any"),
        }
    }

    pub fn print_typed(&mut self, name: impl std::fmt::Display, ty: Type) {
        self.write_text(format_args!("{name}: "));
        self.print_type(ty);
    }
}

/// Returns the runs of consecutive variables, because fields are usually declared one after the
/// other.
fn consecutive_runs(vars: &[VarId]) -> Vec<(VarId, VarId)> {
    let mut runs: Vec<(VarId, VarId)> = Vec::new();
    for var in vars {
        match runs.last_mut() {
            Some((_, last)) if last.0.checked_add(1) == Some(var.0) => *last = *var,
            _ => runs.push((*var, *var)),
        }
    }
    runs
}
