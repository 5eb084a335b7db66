//! Dumps of parsers, controls, tables, actions and instances.

use super::HirDump;
use crate::hir::{
    Action, ControlBody, InstanceId, LocalDecl, Object, ObjectKind, ParserBody, State, StateRef, Table, TransitionKind,
};

impl HirDump<'_> {
    /// Writes a parser or control with its body. Declarations without a body are left out.
    pub(super) fn write_object(&mut self, object: &Object) {
        let (keyword, has_body) = match &object.kind {
            ObjectKind::Parser(_) => ("parser", true),
            ObjectKind::Control(_) => ("control", true),
            _ => ("", false),
        };
        if !has_body {
            return;
        }
        let mut signature = format!(
            "{keyword} {}{}({})",
            object.name,
            self.type_params_text(&object.type_params),
            self.params_text(&object.params)
        );
        if !object.constructor_params.is_empty() {
            signature.push_str(&format!("({})", self.params_text(&object.constructor_params)));
        }
        self.write_braced(&signature, |d| match &object.kind {
            ObjectKind::Parser(body) => d.write_parser(body),
            ObjectKind::Control(body) => d.write_control(body),
            _ => {}
        });
    }

    fn write_parser(&mut self, body: &ParserBody) {
        self.write_locals(&body.locals);
        for state in &body.states {
            self.write_braced(&format!("state {}", state.name), |d| d.write_state(state, body));
        }
    }

    fn write_state(&mut self, state: &State, body: &ParserBody) {
        self.write_stmts(&state.body);
        let target = |target: StateRef| match target {
            StateRef::State(at) => body.states.get(at).map_or("?", |s| &s.name),
            StateRef::Accept => "accept",
            StateRef::Reject => "reject",
        };
        match &state.transition.kind {
            TransitionKind::State(to) => self.write_line(&format!("transition {};", target(*to))),
            TransitionKind::Select { exprs, cases } => {
                let head = format!("transition select ({})", self.expr_list_text(exprs));
                self.write_braced(&head, |d| {
                    for case in cases {
                        d.write_line(&format!("{}: {};", d.keyset_text(&case.keyset), target(case.target)));
                    }
                });
            }
        }
    }

    fn write_control(&mut self, body: &ControlBody) {
        self.write_locals(&body.locals);
        self.write_braced("apply", |d| d.write_stmts(&body.apply));
    }

    /// Writes the declarations of a parser or control in order, one line or block for each.
    fn write_locals(&mut self, locals: &[LocalDecl]) {
        for local in locals {
            match local {
                LocalDecl::Var(id, None) => self.write_line(&format!("{};", self.param_text(*id))),
                LocalDecl::Var(id, Some(init)) => {
                    self.write_line(&format!("{} = {};", self.param_text(*id), self.expr_text(init)))
                }
                LocalDecl::Instance(id) => self.write_instance(*id),
                LocalDecl::Action(id) => self.write_action(&self.program.actions[id.index()]),
                LocalDecl::Table(id) => self.write_table(&self.program.tables[id.index()]),
                LocalDecl::ValueSet(id) => {
                    let set = &self.program.value_sets[id.index()];
                    self.write_line(&format!(
                        "value_set<{}>({}) {};",
                        self.type_text(set.ty),
                        self.expr_text(&set.size),
                        set.name
                    ));
                }
            }
        }
    }

    pub(super) fn write_action(&mut self, action: &Action) {
        let head = format!("action {}({})", action.name, self.params_text(&action.params));
        self.write_braced(&head, |d| d.write_stmts(&action.body));
    }

    /// Writes a table with its keys, actions, default action, entries and properties. A `?` stands
    /// for a reference that the program does not have.
    fn write_table(&mut self, table: &Table) {
        let program = self.program;
        let action_name =
            |index: usize| table.actions.get(index).map_or("?", |a| &program.actions[a.action.index()].name);
        self.write_braced(&format!("table {}", table.name), |d| {
            for key in &table.keys {
                let kind = program.match_kinds.get(key.match_kind).map_or("?", |k| k);
                d.write_line(&format!("key {}: {kind};", d.expr_text(&key.expr)));
            }
            for (index, listed) in table.actions.iter().enumerate() {
                d.write_line(&format!(
                    "action {}({}{});",
                    action_name(index),
                    d.call_args_text(&listed.args),
                    HirDump::eval_order_text(&listed.order)
                ));
            }
            let (index, args) = &table.default_action;
            let const_word = if table.const_default { "const " } else { "" };
            d.write_line(&format!("{const_word}default_action {}({});", action_name(*index), d.expr_list_text(args)));
            for entry in &table.entries {
                let const_word = if table.const_entries || entry.is_const { "const " } else { "" };
                let priority = entry.priority.as_ref().map_or(String::new(), |number| format!(" priority={number}"));
                let (keys, args) = (d.keyset_text(&entry.keyset), d.expr_list_text(&entry.args));
                d.write_line(&format!("{const_word}entry{priority} {keys}: {}({args});", action_name(entry.action)));
            }
            if let Some(size) = &table.size {
                d.write_line(&format!("size {};", d.expr_text(size)));
            }
            for property in &table.properties {
                let value = property.value.as_ref().map_or("?".to_owned(), |v| d.expr_text(v));
                d.write_line(&format!("{} = {value};", property.name));
            }
        });
    }

    pub(super) fn write_instance(&mut self, id: InstanceId) {
        let instance = &self.program.instances[id.index()];
        let text = format!("{} {}", self.construct_text(&instance.construct), instance.name);
        if instance.methods.is_empty() && instance.members.is_empty() {
            return self.write_line(&format!("{text};"));
        }
        self.write_braced(&format!("{text} ="), |d| {
            for member in &instance.members {
                d.write_instance(*member);
            }
            for (_, function) in &instance.methods {
                let f = &d.program.functions[function.index()];
                d.write_line(&format!("{} {}({});", d.type_text(f.result), f.name, d.params_text(&f.params)));
            }
        });
    }
}
