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
    /// Returns whether a move needs the hash unit.
    fn needs_hash_unit(&self, to: &str, value: &str, late: bool) -> bool {
        let (cast, rest) = match value.strip_prefix("(bit<").and_then(|rest| rest.split_once(") ")) {
            Some((_, rest)) => (true, rest),
            None => (false, value),
        };
        if computes(value) || is_constant(value) {
            return false;
        }
        let base = rest.split('[').next().unwrap_or(rest);
        let part = rest.contains('[') && !rest.contains("++");
        match (cast, part) {
            (_, true) => self.fields.contains(to) || self.fields.contains(base) || late || self.computed.contains(base),
            (true, false) => self.fields.contains(base),
            (false, false) if rest.contains("++") => self.fields.contains(to),
            // Position and container width of a part of a byte differ between headers.
            (false, false) => {
                let plain = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                plain && (self.shared.contains_key(to) || self.shared.contains_key(rest))
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
        let mut todo: Vec<&P4Stmt> = code.iter().chain(self.e.actions.values().flatten()).collect();
        while let Some(stmt) = todo.pop() {
            match stmt {
                P4Stmt::Line(text) => {
                    count(text);
                    if let Some(part) = assignment(text).filter(|part| computes(part.value)) {
                        computed.insert(part.to.to_owned());
                    }
                }
                P4Stmt::If { cond, then, els } => {
                    count(cond);
                    todo.extend(then.iter().chain(els));
                }
                P4Stmt::Switch { on, cases } => {
                    count(on);
                    todo.extend(cases.iter().flat_map(|(_, code)| code));
                }
                P4Stmt::Loop(code) => todo.extend(code),
            }
        }
        self.e.keys.values().flatten().chain(&self.decls).for_each(|text| count(text));
        self.split_statements(code, &ControlNames { shared, fields, counts, computed })
    }

    fn split_statements(&mut self, code: Vec<P4Stmt>, known: &ControlNames) -> Vec<P4Stmt> {
        let mut all = Vec::new();
        let mut run: Vec<String> = Vec::new();
        for stmt in code {
            if let P4Stmt::Line(text) = &stmt
                && assignment(text).is_some()
            {
                run.push(text.clone());
                continue;
            }
            // Variables are declared in the order of their assignments.
            self.split_assignments(std::mem::take(&mut run), known, &mut all);
            let stmt = match stmt {
                P4Stmt::If { cond, then, els } => P4Stmt::If {
                    cond,
                    then: self.split_statements(then, known),
                    els: self.split_statements(els, known),
                },
                P4Stmt::Switch { on, cases } => {
                    let cases =
                        cases.into_iter().map(|(labels, code)| (labels, self.split_statements(code, known))).collect();
                    P4Stmt::Switch { on, cases }
                }
                other => other,
            };
            match stmt {
                P4Stmt::Line(text) if text.contains(".count(") || text.contains(".write(") => {
                    let object = text.split('.').next().unwrap_or(&text);
                    all.push(self.add_action(&format!("use_{object}"), &text));
                }
                other => all.push(other),
            }
        }
        self.split_assignments(run, known, &mut all);
        all
    }

    /// Splits consecutive assignments.
    fn split_assignments(&mut self, run: Vec<String>, known: &ControlNames, out: &mut Vec<P4Stmt>) {
        let mut parts: Vec<Assignment<'_>> = run.iter().filter_map(|text| assignment(text)).collect();
        // The result of a unit goes directly to its target if it has only one.
        for n in (1..parts.len()).rev() {
            let passes =
                is_unit_result(parts[n - 1].value) && parts[n].value == parts[n - 1].to && parts[n].ty.is_none();
            if passes && parts[n - 1].ty.is_some() && known.counts.get(parts[n].value) == Some(&2) {
                let value = parts[n - 1].value;
                parts[n].value = value;
                parts.remove(n - 1);
            }
        }
        let mut writes: HashMap<usize, usize> = HashMap::new();
        parts.iter().filter_map(|a| known.shared.get(a.to)).for_each(|bytes| *writes.entry(*bytes).or_default() += 1);
        let mut computed: HashSet<&str> = HashSet::new();
        for part in &parts {
            let crowded = known.shared.get(part.to).is_some_and(|bytes| writes[bytes] > 1) && !is_constant(part.value);
            let late = names_in(part.value).any(|name| computed.contains(name));
            let asked = computes(part.value) && !part.to.contains('.');
            let across = known.needs_hash_unit(part.to, part.value, late);
            if computes(part.value) || late || across {
                computed.insert(part.to);
            }
            if let Some(ty) = part.ty {
                self.declare(ty, part.to);
            }
            let text = format!("{} = {};", part.to, part.value);
            if !(is_unit_result(part.value) || crowded || late || asked || across) {
                out.push(line(text));
                continue;
            }
            let last = part.to.rsplit('.').next().unwrap_or(part.to);
            let text = if across { format!("@in_hash {{ {text} }}") } else { text };
            let stmt = self.add_action(&format!("set_{last}"), &text);
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
        let (mut shared, mut all) = (HashMap::new(), HashSet::new());
        let mut group = 0;
        for header in self.p.headers.values() {
            let mut at = 0;
            let mut members: Vec<String> = Vec::new();
            for var in &header.fields {
                members.push(self.e.var_name(*var));
                at += self.p.vars[*var].ty.width();
                if at.is_multiple_of(8) {
                    all.extend(members.iter().cloned());
                    if members.len() > 1 {
                        shared.extend(members.drain(..).map(|name| (name, group)));
                        group += 1;
                    }
                    members.clear();
                }
            }
        }
        (shared, all)
    }
}
