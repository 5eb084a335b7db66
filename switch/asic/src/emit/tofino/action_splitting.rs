//! Action splitting: turns straight-line code into actions that the chip can execute in one step.
//!
//! ```text
//! meta.h = hash.get({a});        action set_h() { meta.h = hash.get({a}); }
//! meta.i = meta.h + 1;       ->  action set_i() { meta.i = meta.h + 1; }
//! meta.c = 5;                    set_h(); set_i(); meta.c = 5;
//! ```
//!
//! The chip's compiler merges consecutive assignments into one action, and an action is one
//! instruction for each container. Such an instruction has two field sources, or one and a
//! constant; fields that share a byte share a container. Results of hash units, random number
//! generators and meters reach an action over a single 32-bit bus. An assignment therefore gets a
//! separate action if it
//!
//! - takes such a result,
//! - writes a field that shares bytes with another written field,
//! - reads a value computed just before, or
//! - computes a local variable, because the compiler would move the expression into the condition
//!   that uses it, and conditions cannot compute.
//!
//! A counter or register with a field as index is addressed through the hash unit. Beside it, an
//! action without lookup has no action data, not even constants that are too large for an
//! instruction, so such an access is a separate action too.
//!
//! ALU operands are in containers as wide as the result's. A header field that is widened or sliced
//! and also used as a whole would need two kinds of containers. Such moves go through the hash
//! unit, which can move any bits (`@in_hash`). The same holds for moves of fields that are parts of
//! bytes: IPv4 has its DSCP in one byte, IPv6 in two, and a bridge header of one byte is in an
//! 8-bit container.

use crate::emit::body::BodyWriter;
use crate::emit::text::{P4Stmt, line};
use std::collections::{HashMap, HashSet};

/// Assignment in the emitted text.
struct Assignment<'t> {
    /// Type, if the assignment declares its target.
    ty: Option<&'t str>,
    to: &'t str,
    value: &'t str,
}

fn assignment(text: &str) -> Option<Assignment<'_>> {
    let (left, value) = text.strip_suffix(';')?.split_once(" = ")?;
    let (ty, to) = match left.rsplit_once(' ') {
        Some((ty, to)) => (Some(ty), to),
        None => (None, left),
    };
    Some(Assignment { ty, to, value })
}

/// Returns whether a value comes from a unit other than an ALU.
fn is_unit_result(value: &str) -> bool {
    (value.contains(".get(") || value.contains(".execute(") || value.contains(".read(")) && !value.contains("packet.")
}

fn is_constant(value: &str) -> bool {
    let value = value.rsplit(") ").next().unwrap_or(value);
    value.starts_with(|c: char| c.is_ascii_digit()) && !value.contains("++") || value == "true" || value == "false"
}

fn computes(value: &str) -> bool {
    [" + ", " - ", " & ", " | ", " ^ ", " |-| ", " |+| ", " << ", " >> "].iter().any(|sign| value.contains(sign))
}

/// Returns the names in an expression.
fn names_in(value: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.';
    value.split(part).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Facts on the names of a control.
struct ControlNames {
    /// Fields that share a byte with others, with the number of their group.
    shared: HashMap<String, usize>,
    /// Header fields.
    fields: HashSet<String>,
    /// Number of occurrences of each name.
    counts: HashMap<String, usize>,
    /// Variables that an ALU computes somewhere.
    computed: HashSet<String>,
}

impl ControlNames {
    /// Returns whether a move of `value` to `to` needs the hash unit, which can shift and recombine
    /// bits; an ALU moves only whole containers. `is_late`: an earlier assignment of the same run
    /// computes the value.
    fn needs_hash_unit(&self, to: &str, value: &str, is_late: bool) -> bool {
        let (is_cast, rest) = match value.strip_prefix("(bit<").and_then(|rest| rest.split_once(") ")) {
            Some((_, rest)) => (true, rest),
            None => (false, value),
        };
        if computes(value) || is_constant(value) {
            return false;
        }
        let base = rest.split('[').next().unwrap_or(rest);
        let is_slice = rest.contains('[') && !rest.contains("++");
        match (is_cast, is_slice) {
            (_, true) => {
                self.fields.contains(to) || self.fields.contains(base) || is_late || self.computed.contains(base)
            }
            (true, false) => self.fields.contains(base),
            (false, false) if rest.contains("++") => self.fields.contains(to),
            // Position and container width of a part of a byte differ between headers.
            (false, false) => {
                let is_name = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                is_name && (self.shared.contains_key(to) || self.shared.contains_key(rest))
            }
        }
    }
}

impl BodyWriter<'_, '_> {
    /// Moves each assignment that requires it into a separate action.
    pub(in crate::emit) fn split_into_actions(&mut self, code: Vec<P4Stmt>) -> Vec<P4Stmt> {
        let (shared, fields) = self.header_field_names();
        let (mut counts, mut computed) = (HashMap::new(), HashSet::new());
        let mut count = |text: &str| names_in(text).for_each(|name| *counts.entry(name.to_owned()).or_insert(0) += 1);
        let mut unvisited: Vec<&P4Stmt> = code.iter().chain(self.e.actions.values().flatten()).collect();
        while let Some(stmt) = unvisited.pop() {
            match stmt {
                P4Stmt::Line(text) => {
                    count(text);
                    if let Some(assigned) = assignment(text).filter(|assigned| computes(assigned.value)) {
                        computed.insert(assigned.to.to_owned());
                    }
                }
                P4Stmt::If { cond, then, els } => {
                    count(cond);
                    unvisited.extend(then.iter().chain(els));
                }
                P4Stmt::Switch { on, cases } => {
                    count(on);
                    unvisited.extend(cases.iter().flat_map(|(_, code)| code));
                }
                P4Stmt::Loop(code) => unvisited.extend(code),
            }
        }
        self.e.keys.values().flatten().chain(&self.decls).for_each(|text| count(text));
        self.split_statements(code, &ControlNames { shared, fields, counts, computed })
    }

    /// Splits the assignments of nested statements; consecutive ones form a run.
    fn split_statements(&mut self, code: Vec<P4Stmt>, names: &ControlNames) -> Vec<P4Stmt> {
        let mut out = Vec::new();
        let mut run: Vec<String> = Vec::new();
        for stmt in code {
            if let P4Stmt::Line(text) = &stmt
                && assignment(text).is_some()
            {
                run.push(text.clone());
                continue;
            }
            // Variables are declared in the order of their assignments.
            self.split_assignments(std::mem::take(&mut run), names, &mut out);
            let stmt = match stmt {
                P4Stmt::If { cond, then, els } => P4Stmt::If {
                    cond,
                    then: self.split_statements(then, names),
                    els: self.split_statements(els, names),
                },
                P4Stmt::Switch { on, cases } => {
                    let cases =
                        cases.into_iter().map(|(labels, code)| (labels, self.split_statements(code, names))).collect();
                    P4Stmt::Switch { on, cases }
                }
                other => other,
            };
            match stmt {
                P4Stmt::Line(text) if text.contains(".count(") || text.contains(".write(") => {
                    let object = text.split('.').next().unwrap_or(&text);
                    out.push(self.add_action(&format!("use_{object}"), &text));
                }
                other => out.push(other),
            }
        }
        self.split_assignments(run, names, &mut out);
        out
    }

    /// Splits consecutive assignments: those that the chip cannot execute together with their
    /// neighbours go to actions of their own.
    fn split_assignments(&mut self, run: Vec<String>, names: &ControlNames, out: &mut Vec<P4Stmt>) {
        let mut parts: Vec<Assignment<'_>> = run.iter().filter_map(|text| assignment(text)).collect();
        // The result of a unit goes directly to its target if it has only one.
        for n in (1..parts.len()).rev() {
            let is_passed_on =
                is_unit_result(parts[n - 1].value) && parts[n].value == parts[n - 1].to && parts[n].ty.is_none();
            if is_passed_on && parts[n - 1].ty.is_some() && names.counts.get(parts[n].value) == Some(&2) {
                let value = parts[n - 1].value;
                parts[n].value = value;
                parts.remove(n - 1);
            }
        }
        let mut writes: HashMap<usize, usize> = HashMap::new();
        parts.iter().filter_map(|a| names.shared.get(a.to)).for_each(|bytes| *writes.entry(*bytes).or_default() += 1);
        let mut computed: HashSet<&str> = HashSet::new();
        for assigned in &parts {
            let shares_container =
                names.shared.get(assigned.to).is_some_and(|bytes| writes[bytes] > 1) && !is_constant(assigned.value);
            let is_late = names_in(assigned.value).any(|name| computed.contains(name));
            let is_computed_var = computes(assigned.value) && !assigned.to.contains('.');
            let needs_hash = names.needs_hash_unit(assigned.to, assigned.value, is_late);
            if computes(assigned.value) || is_late || needs_hash {
                computed.insert(assigned.to);
            }
            if let Some(ty) = assigned.ty {
                self.declare(ty, assigned.to);
            }
            let text = format!("{} = {};", assigned.to, assigned.value);
            if !(is_unit_result(assigned.value) || shares_container || is_late || is_computed_var || needs_hash) {
                out.push(line(text));
                continue;
            }
            let last_name = assigned.to.rsplit('.').next().unwrap_or(assigned.to);
            let text = if needs_hash { format!("@in_hash {{ {text} }}") } else { text };
            let stmt = self.add_action(&format!("set_{last_name}"), &text);
            out.push(stmt);
        }
    }

    /// Adds an action for a statement and returns its call.
    fn add_action(&mut self, wanted: &str, text: &str) -> P4Stmt {
        let name = self.e.names.fresh_name(wanted);
        self.decls.push(format!("action {name}() {{ {text} }}"));
        line(format!("{name}();"))
    }

    /// Returns the names of header fields that share a byte with others, with the number of their
    /// group, and the names of all header fields.
    fn header_field_names(&self) -> (HashMap<String, usize>, HashSet<String>) {
        let (mut shared, mut fields) = (HashMap::new(), HashSet::new());
        let mut group = 0;
        for header in self.p.headers.values() {
            let mut end_bit = 0;
            let mut members: Vec<String> = Vec::new();
            for var in &header.fields {
                members.push(self.e.var_name(*var));
                end_bit += self.p.vars[*var].ty.width();
                if end_bit.is_multiple_of(8) {
                    fields.extend(members.iter().cloned());
                    if members.len() > 1 {
                        shared.extend(members.drain(..).map(|name| (name, group)));
                        group += 1;
                    }
                    members.clear();
                }
            }
        }
        (shared, fields)
    }
}
