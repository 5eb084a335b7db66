//! Instruction selection: straight-line code as actions that a chip runs; what one action can't do
//! becomes several.
//!
//! ```text
//! meta.h = hash.get({a});        action set_h() { meta.h = hash.get({a}); }
//! meta.i = meta.h + 1;       ->  action set_i() { meta.i = meta.h + 1; }
//! meta.c = 5;                    set_h(); set_i(); meta.c = 5;
//! ```
//!
//! The chip's compiler makes one action of assignments that follow each other, and an action is one
//! instruction for each container of header fields. Such an instruction has two sources that are
//! fields, or one and a constant; fields that share a byte share a container. And what a hash unit,
//! a random number generator or a meter gives comes to an action on one way of 32 bits. So an
//! assignment gets an action of its own if it takes such a result, if it writes a field that shares
//! bytes with another one that is written there, or if it reads what was computed right before. So
//! does what computes a local variable: the compiler would put its expression into the condition
//! that asks for it, and conditions compute nothing.
//!
//! A counter or register whose index is a field is reached through the hash unit, beside which an
//! action without lookup has no data of its own, not even constants that are too large for an
//! instruction: so that is an action, too.
//!
//! An ALU's operands are in containers as wide as its result's. A header field that is widened, or
//! of which bits are taken, while it is also used as it is, would have to be in two kinds of
//! container; so such moves go through the hash unit, which brings bits anywhere (`@in_hash`). So
//! do moves of fields that are parts of bytes: IPv4 has its DSCP in a byte, IPv6 across two, and a
//! bridge header of one byte is in a container of eight bits.

use crate::emit::body::Writer;
use crate::emit::text::{Stmt, line};
use std::collections::{HashMap, HashSet};

/// An assignment as it is written.
struct Assignment<'t> {
    /// Its type, where it declares what it writes.
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

/// Whether a value comes from a unit beside the ALUs.
fn from_unit(value: &str) -> bool {
    (value.contains(".get(") || value.contains(".execute(") || value.contains(".read(")) && !value.contains("packet.")
}

fn is_constant(value: &str) -> bool {
    let value = value.rsplit(") ").next().unwrap_or(value);
    value.starts_with(|c: char| c.is_ascii_digit()) && !value.contains("++") || value == "true" || value == "false"
}

fn computes(value: &str) -> bool {
    [" + ", " - ", " & ", " | ", " ^ ", " |-| ", " |+| ", " << ", " >> "].iter().any(|sign| value.contains(sign))
}

/// The names in an expression.
fn names(value: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.';
    value.split(part).filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// What is known of a control's names.
struct Known {
    /// Fields that share a byte with others, with a number for each such group.
    shared: HashMap<String, usize>,
    /// Fields of headers.
    fields: HashSet<String>,
    /// How often names occur.
    counts: HashMap<String, usize>,
    /// Variables that an ALU computes somewhere.
    computed: HashSet<String>,
}

impl Known {
    /// Whether a move needs the hash unit.
    fn is_across(&self, to: &str, value: &str, late: bool) -> bool {
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
            // Where a part of a byte lies, and in how wide a container, differs from header to header.
            (false, false) => {
                let plain = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                plain && (self.shared.contains_key(to) || self.shared.contains_key(rest))
            }
        }
    }
}

impl Writer<'_, '_> {
    /// The code with an action for each assignment that needs one.
    pub(in crate::emit) fn steps(&mut self, code: Vec<Stmt>) -> Vec<Stmt> {
        let (shared, fields) = self.fields();
        let (mut counts, mut computed) = (HashMap::new(), HashSet::new());
        let mut count = |text: &str| names(text).for_each(|name| *counts.entry(name.to_owned()).or_insert(0) += 1);
        let mut todo: Vec<&Stmt> = code.iter().chain(self.e.actions.values().flatten()).collect();
        while let Some(stmt) = todo.pop() {
            match stmt {
                Stmt::Line(text) => {
                    count(text);
                    if let Some(part) = assignment(text).filter(|part| computes(part.value)) {
                        computed.insert(part.to.to_owned());
                    }
                }
                Stmt::If { cond, then, els } => {
                    count(cond);
                    todo.extend(then.iter().chain(els));
                }
                Stmt::Switch { on, cases } => {
                    count(on);
                    todo.extend(cases.iter().flat_map(|(_, code)| code));
                }
                Stmt::Loop(code) => todo.extend(code),
            }
        }
        self.e.keys.values().flatten().chain(&self.decls).for_each(|text| count(text));
        self.steps_of(code, &Known { shared, fields, counts, computed })
    }

    fn steps_of(&mut self, code: Vec<Stmt>, known: &Known) -> Vec<Stmt> {
        let mut all = Vec::new();
        let mut run: Vec<String> = Vec::new();
        for stmt in code {
            if let Stmt::Line(text) = &stmt
                && assignment(text).is_some()
            {
                run.push(text.clone());
                continue;
            }
            // Variables are declared in the order in which they are set.
            self.run(std::mem::take(&mut run), known, &mut all);
            let stmt = match stmt {
                Stmt::If { cond, then, els } => {
                    Stmt::If { cond, then: self.steps_of(then, known), els: self.steps_of(els, known) }
                }
                Stmt::Switch { on, cases } => {
                    let cases = cases.into_iter().map(|(labels, code)| (labels, self.steps_of(code, known))).collect();
                    Stmt::Switch { on, cases }
                }
                other => other,
            };
            match stmt {
                Stmt::Line(text) if text.contains(".count(") || text.contains(".write(") => {
                    let object = text.split('.').next().unwrap_or(&text);
                    all.push(self.own_action(&format!("use_{object}"), &text));
                }
                other => all.push(other),
            }
        }
        self.run(run, known, &mut all);
        all
    }

    /// Assignments that follow each other.
    fn run(&mut self, run: Vec<String>, known: &Known, out: &mut Vec<Stmt>) {
        let mut parts: Vec<Assignment<'_>> = run.iter().filter_map(|text| assignment(text)).collect();
        // What a unit gives goes where it is wanted, if that is one place.
        for n in (1..parts.len()).rev() {
            let passes = from_unit(parts[n - 1].value) && parts[n].value == parts[n - 1].to && parts[n].ty.is_none();
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
            let late = names(part.value).any(|name| computed.contains(name));
            let asked = computes(part.value) && !part.to.contains('.');
            let across = known.is_across(part.to, part.value, late);
            if computes(part.value) || late || across {
                computed.insert(part.to);
            }
            if let Some(ty) = part.ty {
                self.declare(ty, part.to);
            }
            let text = format!("{} = {};", part.to, part.value);
            if !(from_unit(part.value) || crowded || late || asked || across) {
                out.push(line(text));
                continue;
            }
            let last = part.to.rsplit('.').next().unwrap_or(part.to);
            let text = if across { format!("@in_hash {{ {text} }}") } else { text };
            let stmt = self.own_action(&format!("set_{last}"), &text);
            out.push(stmt);
        }
    }

    /// A statement as an action; its call.
    fn own_action(&mut self, wanted: &str, text: &str) -> Stmt {
        let name = self.e.names.fresh(wanted);
        self.decls.push(format!("action {name}() {{ {text} }}"));
        line(format!("{name}();"))
    }

    /// Fields that share a byte with others, by what they are called, with a number for each such
    /// group; and all fields.
    fn fields(&self) -> (HashMap<String, usize>, HashSet<String>) {
        let (mut shared, mut all) = (HashMap::new(), HashSet::new());
        let mut group = 0;
        for header in self.p.headers.values() {
            let mut at = 0;
            let mut members: Vec<String> = Vec::new();
            for var in &header.fields {
                members.push(self.e.var(*var));
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
