//! Parsers, controls, tables, actions and instances as text.

use super::Dump;
use crate::hir::{
    Action, ControlBody, InstanceId, LocalDecl, Object, ObjectKind, ParserBody, State, StateRef, Table, TransitionKind,
};

impl Dump<'_> {
    pub(super) fn object(&mut self, object: &Object) {
        let (word, body) = match &object.kind {
            ObjectKind::Parser(_) => ("parser", true),
            ObjectKind::Control(_) => ("control", true),
            _ => ("", false),
        };
        if !body {
            return;
        }
        let mut head =
            format!("{word} {}{}({})", object.name, self.type_params(&object.type_params), self.params(&object.params));
        if !object.constructor_params.is_empty() {
            head.push_str(&format!("({})", self.params(&object.constructor_params)));
        }
        self.braces(&head, |d| match &object.kind {
            ObjectKind::Parser(body) => d.parser(body),
            ObjectKind::Control(body) => d.control(body),
            _ => {}
        });
    }

    fn parser(&mut self, body: &ParserBody) {
        self.locals(&body.locals);
        for state in &body.states {
            self.braces(&format!("state {}", state.name), |d| d.state(state, body));
        }
    }

    fn state(&mut self, state: &State, body: &ParserBody) {
        self.stmts(&state.body);
        let target = |target: StateRef| match target {
            StateRef::State(at) => body.states.get(at).map_or("?", |s| &s.name),
            StateRef::Accept => "accept",
            StateRef::Reject => "reject",
        };
        match &state.transition.kind {
            TransitionKind::State(to) => self.line(&format!("transition {};", target(*to))),
            TransitionKind::Select { exprs, cases } => {
                let head = format!("transition select ({})", self.exprs(exprs));
                self.braces(&head, |d| {
                    for case in cases {
                        d.line(&format!("{}: {};", d.keyset(&case.keyset), target(case.target)));
                    }
                });
            }
        }
    }

    fn control(&mut self, body: &ControlBody) {
        self.locals(&body.locals);
        self.braces("apply", |d| d.stmts(&body.apply));
    }

    fn locals(&mut self, locals: &[LocalDecl]) {
        for local in locals {
            match local {
                LocalDecl::Var(id, None) => self.line(&format!("{};", self.param(*id))),
                LocalDecl::Var(id, Some(init)) => self.line(&format!("{} = {};", self.param(*id), self.expr(init))),
                LocalDecl::Instance(id) => self.instance(*id),
                LocalDecl::Action(id) => self.action(&self.program.actions[id.index()]),
                LocalDecl::Table(id) => self.table(&self.program.tables[id.index()]),
                LocalDecl::ValueSet(id) => {
                    let set = &self.program.value_sets[id.index()];
                    self.line(&format!("value_set<{}>({}) {};", self.ty(set.ty), self.expr(&set.size), set.name));
                }
            }
        }
    }

    pub(super) fn action(&mut self, action: &Action) {
        let head = format!("action {}({})", action.name, self.params(&action.params));
        self.braces(&head, |d| d.stmts(&action.body));
    }

    fn table(&mut self, table: &Table) {
        let p = self.program;
        let action = |at: usize| table.actions.get(at).map_or("?", |a| &p.actions[a.action.index()].name);
        self.braces(&format!("table {}", table.name), |d| {
            for key in &table.keys {
                let kind = p.match_kinds.get(key.match_kind).map_or("?", |k| k);
                d.line(&format!("key {}: {kind};", d.expr(&key.expr)));
            }
            for (at, listed) in table.actions.iter().enumerate() {
                d.line(&format!("action {}({}{});", action(at), d.call_args(&listed.args), Dump::order(&listed.order)));
            }
            let (at, args) = &table.default_action;
            let word = if table.const_default { "const " } else { "" };
            d.line(&format!("{word}default_action {}({});", action(*at), d.exprs(args)));
            for entry in &table.entries {
                let word = if table.const_entries || entry.is_const { "const " } else { "" };
                let priority = entry.priority.as_ref().map_or(String::new(), |p| format!(" priority={p}"));
                let (keys, args) = (d.keyset(&entry.keyset), d.exprs(&entry.args));
                d.line(&format!("{word}entry{priority} {keys}: {}({args});", action(entry.action)));
            }
            if let Some(size) = &table.size {
                d.line(&format!("size {};", d.expr(size)));
            }
            for property in &table.properties {
                let value = property.value.as_ref().map_or("?".to_owned(), |v| d.expr(v));
                d.line(&format!("{} = {value};", property.name));
            }
        });
    }

    pub(super) fn instance(&mut self, id: InstanceId) {
        let instance = &self.program.instances[id.index()];
        let text = format!("{} {}", self.construct(&instance.construct), instance.name);
        if instance.methods.is_empty() && instance.members.is_empty() {
            return self.line(&format!("{text};"));
        }
        self.braces(&format!("{text} ="), |d| {
            for member in &instance.members {
                d.instance(*member);
            }
            for (_, function) in &instance.methods {
                let f = &d.program.functions[function.index()];
                d.line(&format!("{} {}({});", d.ty(f.result), f.name, d.params(&f.params)));
            }
        });
    }
}
