//! Printing declarations.

use super::print::{Printer, bare_or_quoted, dollar, number, quoted};
use super::resolve::Kind;
use super::words::Word;
use crate::entity::VarId;
use crate::pipeline::*;
use crate::table::{Action, ActionCall, ConstEntry, Key, KeyMatch, Param, Table};
use crate::types::Type;

impl Printer<'_> {
    pub fn pipeline(&mut self) {
        let p = self.pipeline;
        self.line(format_args!("pipeline {} {}", quoted(&p.name), p.arch.word()));
        for annotation in &p.annotations {
            self.line(format_args!("annotation {}", quoted(annotation)));
        }
        for file in &p.files {
            self.line(format_args!("file {}", quoted(file)));
        }
        self.names_in_braces("errors", &p.errors);
        for e in p.enums.values() {
            self.names_in_braces(&format!("enum {}", dollar(&e.name)), &e.members);
        }
        p.header_types.values().for_each(|t| self.header_type(t));
        p.vars.values().for_each(|v| self.var(v));
        p.headers.values().for_each(|h| self.header(h));
        for s in p.stacks.values() {
            self.put(format_args!("stack {} next ", dollar(&s.name)));
            self.entity(Kind::Var, s.next);
            self.put(" { ");
            self.list(&s.elements, |p, h| p.entity(Kind::Header, *h));
            self.line(" }");
        }
        for u in p.unions.values() {
            self.put(format_args!("union {} {{ ", dollar(&u.name)));
            self.list(&u.members, |p, h| p.entity(Kind::Header, *h));
            self.line(" }");
        }
        for (name, var) in &p.intrinsics {
            self.put(format_args!("intrinsic {} = ", quoted(name)));
            self.entity(Kind::Var, *var);
            self.line("");
        }
        for (number, vars) in &p.field_lists {
            self.put(format_args!("field_list {number} {{ "));
            self.list(vars, |p, v| p.entity(Kind::Var, *v));
            self.line(" }");
        }
        p.named_types.iter().for_each(|(name, ty)| self.named_type(name, ty));
        for (name, strings) in &p.mappings {
            self.put(format_args!("mapping {} {{ ", quoted(name)));
            self.list(strings, |p, (string, value)| p.put(format_args!("{} = {}", quoted(string), number(value))));
            self.line(" }");
        }
        p.controller_headers.iter().for_each(|h| self.controller_header(h));
        for e in p.externs.values() {
            self.put(format_args!("extern {}: ", dollar(&e.preamble.name)));
            self.extern_kind(&e.kind);
            self.preamble(&e.preamble);
            self.loc(e.loc);
            self.line("");
        }
        p.value_sets.values().for_each(|s| self.value_set(s));
        p.actions.values().for_each(|a| self.action(a));
        p.tables.values().for_each(|t| self.table(t));
        p.controls.values().for_each(|c| self.control(c));
    }

    fn names_in_braces(&mut self, head: &str, names: &[String]) {
        self.put(format_args!("{head} {{ "));
        self.list(names, |p, n| p.put(bare_or_quoted(n)));
        self.line(" }");
    }

    fn header_type(&mut self, ty: &HeaderType) {
        self.line(format_args!("header_type {} {{", dollar(&ty.name)));
        for field in &ty.fields {
            self.put(format_args!("  {}: ", bare_or_quoted(&field.name)));
            self.ty(field.ty);
            self.line("");
        }
        self.line("}");
    }

    fn var(&mut self, var: &Var) {
        self.put(format_args!("var {}: ", dollar(&var.name)));
        self.ty(var.ty);
        match var.kind {
            VarKind::Field(header, n) => {
                self.put(" field ");
                self.entity(Kind::Header, header);
                self.put(format_args!(" {n}"));
            }
            VarKind::Meta => self.put(" meta"),
            VarKind::Intrinsic => self.put(" intrinsic"),
            VarKind::Local => self.put(" local"),
            VarKind::NextIndex(stack) => {
                self.put(" next_index ");
                self.entity(Kind::Stack, stack);
            }
        }
        self.loc(var.loc);
        self.line("");
    }

    fn header(&mut self, header: &Header) {
        self.put(format_args!("header {}: ", dollar(&header.name)));
        self.entity(Kind::HeaderType, header.ty);
        self.put(" { ");
        let runs = runs(&header.fields);
        self.list(runs, |p, (first, last)| {
            p.entity(Kind::Var, first);
            if first != last {
                p.put(" .. ");
                p.entity(Kind::Var, last);
            }
        });
        self.put(" }");
        if let Some(union) = header.union {
            self.put(" union ");
            self.entity(Kind::Union, union);
        }
        self.line(if header.local { " local" } else { "" });
    }

    fn named_type(&mut self, name: &str, ty: &NamedType) {
        self.put(format_args!("type {} ", quoted(name)));
        match ty {
            NamedType::Struct(members) | NamedType::Header(members) => {
                self.put(if matches!(ty, NamedType::Struct(_)) { "struct { " } else { "header { " });
                self.list(members, |p, (name, ty)| {
                    p.put(format_args!("{}: ", bare_or_quoted(name)));
                    p.data_type(ty);
                });
                self.put(" }");
            }
            NamedType::Union(members) => {
                self.put("union { ");
                self.list(members, |p, (name, header)| {
                    p.put(format_args!("{}: {}", bare_or_quoted(name), quoted(header)));
                });
                self.put(" }");
            }
            NamedType::Enum(members) => {
                self.put("enum { ");
                self.list(members, |p, m| p.put(bare_or_quoted(m)));
                self.put(" }");
            }
            NamedType::SerializableEnum(width, members) => {
                self.put(format_args!("serializable_enum {width} {{ "));
                self.list(members, |p, (m, v)| p.put(format_args!("{} = {}", bare_or_quoted(m), number(v))));
                self.put(" }");
            }
            NamedType::NewType(ty, translation) => {
                self.put("new_type ");
                self.data_type(ty);
                match translation {
                    Some((uri, Some(width))) => self.put(format_args!(" translated {} {width}", quoted(uri))),
                    Some((uri, None)) => self.put(format_args!(" translated {} string", quoted(uri))),
                    None => {}
                }
            }
        }
        self.annotations(self.pipeline.type_annotations.get(name).map_or(&[], Vec::as_slice));
        self.line("");
    }

    fn controller_header(&mut self, header: &ControllerHeader) {
        self.put(format_args!("controller_header {} ", quoted(&header.preamble.name)));
        self.entity(Kind::HeaderType, header.header);
        self.params(&header.fields);
        self.preamble(&header.preamble);
        self.line("");
    }

    fn value_set(&mut self, set: &ValueSet) {
        self.put(format_args!("value_set {} size {}", dollar(&set.preamble.name), set.size));
        self.preamble(&set.preamble);
        self.loc(set.loc);
        self.line(" {");
        set.keys.iter().for_each(|k| self.key(k));
        self.line("}");
    }

    fn key(&mut self, key: &Key) {
        self.put(format_args!("  key {}: ", quoted(&key.name)));
        self.ty(key.ty);
        self.put(format_args!(" {}", key.kind.word()));
        self.described(&key.type_name, key.id, &key.annotations);
        self.line("");
    }

    fn described(&mut self, type_name: &Option<String>, id: u32, annotations: &[String]) {
        if let Some(name) = type_name {
            self.put(format_args!(" type {}", quoted(name)));
        }
        if id != 0 {
            self.put(format_args!(" id {id}"));
        }
        self.annotations(annotations);
    }

    fn params(&mut self, params: &[Param]) {
        self.put(" (");
        self.list(params, |p, param| {
            p.put(format_args!("{}: ", bare_or_quoted(&param.name)));
            p.ty(param.ty);
            p.described(&param.type_name, param.id, &param.annotations);
        });
        self.put(")");
    }

    fn action(&mut self, action: &Action) {
        self.put(format_args!("action {}", dollar(&action.preamble.name)));
        self.params(&action.params);
        self.preamble(&action.preamble);
        self.loc(action.loc);
        self.line("");
    }

    fn action_call(&mut self, call: &ActionCall) {
        self.entity(Kind::Action, call.action);
        self.put("(");
        self.list(&call.args, |p, a| p.put(number(a)));
        self.put(")");
    }

    fn table(&mut self, table: &Table) {
        self.put(format_args!("table {}", dollar(&table.preamble.name)));
        self.preamble(&table.preamble);
        self.loc(table.loc);
        self.line(" {");
        table.keys.iter().for_each(|k| self.key(k));
        for action in &table.actions {
            self.put("  action ");
            self.entity(Kind::Action, action.action);
            self.put(if action.table_only { " table_only" } else { "" });
            self.put(if action.default_only { " default_only" } else { "" });
            self.annotations(&action.annotations);
            self.line("");
        }
        self.put(if table.const_default { "  default const " } else { "  default " });
        self.action_call(&table.default_action);
        self.line("");
        if let Some(size) = table.size {
            self.line(format_args!("  size {size}"));
        }
        self.table_externs(table);
        for (flag, word) in [
            (table.add_on_miss, "add_on_miss"),
            (table.idle_timeout, "idle_timeout"),
            (table.const_entries, "const_entries"),
        ] {
            if flag {
                self.line(format_args!("  {word}"));
            }
        }
        for (name, text) in &table.properties {
            self.line(format_args!("  property {} {}", quoted(name), quoted(text)));
        }
        table.entries.iter().for_each(|e| self.entry(e));
        self.line("}");
    }

    fn table_externs(&mut self, table: &Table) {
        for (word, object) in [
            ("implementation", table.implementation),
            ("direct_counter", table.direct_counter),
            ("direct_meter", table.direct_meter),
        ] {
            if let Some(object) = object {
                self.put(format_args!("  {word} "));
                self.entity(Kind::Extern, object);
                self.line("");
            }
        }
        if let Some(var) = table.meter_result {
            self.put("  meter_result ");
            self.entity(Kind::Var, var);
            self.line("");
        }
    }

    fn entry(&mut self, entry: &ConstEntry) {
        self.put("  entry (");
        self.list(&entry.keys, |p, k| p.key_match(k));
        self.put(") => ");
        self.action_call(&entry.action);
        if entry.priority != 0 {
            self.put(format_args!(" priority {}", entry.priority));
        }
        self.put(if entry.is_const { " const" } else { "" });
        self.loc(entry.loc);
        self.line("");
    }

    fn key_match(&mut self, key: &KeyMatch) {
        match key {
            KeyMatch::Exact(v) => self.put(number(v)),
            KeyMatch::Ternary { value, mask } => {
                self.put(format_args!("{} &&& {}", number(value), number(mask)));
            }
            KeyMatch::Lpm { value, prefix_len } => self.put(format_args!("{} / {prefix_len}", number(value))),
            KeyMatch::Range { lo, hi } => self.put(format_args!("{} .. {}", number(lo), number(hi))),
            KeyMatch::Optional(Some(v)) => self.put(format_args!("some {}", number(v))),
            KeyMatch::Optional(None) => self.put("any"),
        }
    }

    pub fn typed(&mut self, name: impl std::fmt::Display, ty: Type) {
        self.put(format_args!("{name}: "));
        self.ty(ty);
    }
}

/// Runs of consecutive variables: fields are declared one after the other, as a rule.
fn runs(vars: &[VarId]) -> Vec<(VarId, VarId)> {
    let mut runs: Vec<(VarId, VarId)> = Vec::new();
    for var in vars {
        match runs.last_mut() {
            Some((_, last)) if last.0.checked_add(1) == Some(var.0) => *last = *var,
            _ => runs.push((*var, *var)),
        }
    }
    runs
}
