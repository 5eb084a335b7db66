//! Prints a generated program as P4 text.

use super::tree::*;
use ir::Arch;
use std::fmt::{self, Display, Formatter, Write};

impl Display for Ty {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Bool => f.write_str("bool"),
            Ty::Bit(w) => write!(f, "bit<{w}>"),
            Ty::Int(w) => write!(f, "int<{w}>"),
        }
    }
}

/// Formats a literal of a type.
pub fn literal(ty: Ty, value: u128) -> String {
    match ty {
        Ty::Bool => (value & 1 == 1).to_string(),
        Ty::Bit(w) => format!("{w}w{value:#x}"),
        Ty::Int(w) => format!("(int<{w}>) {w}w{value:#x}"),
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Lit(value) if matches!(self.ty, Ty::Int(_)) => write!(f, "({})", literal(self.ty, *value)),
            ExprKind::Lit(value) => f.write_str(&literal(self.ty, *value)),
            ExprKind::Place(name) => f.write_str(name),
            ExprKind::Unary(op, a) => write!(f, "({op}{a})"),
            ExprKind::Binary(op, a, b) => write!(f, "({a} {op} {b})"),
            // A literal cannot be sliced without parentheses.
            ExprKind::Slice(a, hi, lo) => write!(f, "({a})[{hi}:{lo}]"),
            ExprKind::Cast(a) => write!(f, "(({}) {a})", self.ty),
            ExprKind::Choose(c, a, b) => write!(f, "({c} ? {a} : {b})"),
            ExprKind::Mixed(parts) => parts.iter().try_for_each(|part| write!(f, "{part}")),
        }
    }
}

impl Display for TextPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TextPart::Text(text) => f.write_str(text),
            TextPart::Expr(expr) => expr.fmt(f),
        }
    }
}

fn join_parts(parts: &[TextPart]) -> String {
    parts.iter().map(ToString::to_string).collect()
}

/// Indented lines of text.
#[derive(Default)]
struct Lines {
    out: String,
    depth: usize,
}

impl Lines {
    fn push_line(&mut self, line: impl Display) {
        let indent = self.depth * 4;
        let _ = writeln!(self.out, "{:indent$}{line}", "");
    }

    fn open_block(&mut self, line: impl Display) {
        self.push_line(format_args!("{line} {{"));
        self.depth += 1;
    }

    fn close_block(&mut self) {
        self.depth -= 1;
        self.push_line("}");
    }

    fn print_statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            self.print_statement(statement);
        }
    }

    /// Prints a statement with its blocks.
    fn print_statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Line(parts) => self.push_line(format_args!("{};", join_parts(parts))),
            Stmt::If { cond, then, els } => {
                self.open_block(format_args!("if ({cond})"));
                self.print_statements(then);
                if !els.is_empty() {
                    self.depth -= 1;
                    self.open_block("} else");
                    self.print_statements(els);
                }
                self.close_block();
            }
            Stmt::Switch { on, cases, default } => {
                self.open_block(format_args!("switch ({})", join_parts(on)));
                let default = default.iter().map(|body| ("default".to_owned(), body.clone()));
                for (label, body) in cases.iter().cloned().chain(default) {
                    self.open_block(format_args!("{label}:"));
                    self.print_statements(&body);
                    self.close_block();
                }
                self.close_block();
            }
            Stmt::For { name, limit, body } => {
                self.open_block(format_args!("for (bit<8> {name} = 0; {name} < {limit}; {name} = {name} + 1)"));
                self.print_statements(body);
                self.close_block();
            }
        }
    }

    /// Prints the header types, unions, `headers_t` and the metadata.
    fn print_types(&mut self, program: &Program) {
        program.types.iter().for_each(|ty| self.push_line(ty));
        for header in &program.headers {
            self.open_block(format_args!("header {}", header.name));
            for field in &header.fields {
                match field.varbit {
                    true => self.push_line(format_args!("varbit<{}> {};", field.ty.width(), field.name)),
                    false => self.push_line(format_args!("{} {};", field.ty, field.name)),
                }
            }
            self.close_block();
        }
        for instance in &program.instances {
            if let Shape::Union(members) = &instance.shape {
                self.open_block(format_args!("header_union {}_t", instance.name));
                for (number, member) in members.iter().enumerate() {
                    self.push_line(format_args!("{} m{number};", program.headers[*member].name));
                }
                self.close_block();
            }
        }
        self.open_block("struct headers_t");
        for Instance { name, shape } in &program.instances {
            match shape {
                Shape::Single(ty) => self.push_line(format_args!("{} {name};", program.headers[*ty].name)),
                Shape::Stack(ty, size) => self.push_line(format_args!("{}[{size}] {name};", program.headers[*ty].name)),
                Shape::Union(_) => self.push_line(format_args!("{name}_t {name};")),
            }
        }
        self.close_block();
        self.open_block("struct metadata_t");
        program.metadata.iter().for_each(|field| self.push_line(format_args!("{field};")));
        self.close_block();
    }

    fn print_parser(&mut self, program: &Program, parameter: &str) {
        self.open_block(format_args!(
            "parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, {parameter})"
        ));
        program.value_sets.iter().for_each(|set| self.push_line(format_args!("{set};")));
        for state in &program.states {
            self.print_state(state);
        }
        self.close_block();
    }

    /// Prints a parser state. A transition without keys goes to its first target, or accepts.
    fn print_state(&mut self, state: &State) {
        self.open_block(format_args!("state {}", state.name));
        for op in &state.ops {
            match op {
                Op::Extract { place, size: None, .. } => self.push_line(format_args!("packet.extract({place});")),
                Op::Extract { place, size: Some(size), .. } => {
                    self.push_line(format_args!("packet.extract({place}, {size});"));
                }
                Op::Advance(bits) => self.push_line(format_args!("packet.advance({bits});")),
                Op::Other(statement) => self.print_statement(statement),
            }
        }
        let Transition { keys, cases } = &state.next;
        match (keys.is_empty(), cases.first()) {
            (_, None) => self.push_line("transition accept;"),
            (true, Some((_, target))) => self.push_line(format_args!("transition {target};")),
            (false, Some(_)) => {
                let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                self.open_block(format_args!("transition select({})", keys.join(", ")));
                for (sets, target) in cases {
                    self.push_line(format_args!("{}: {target};", keysets(sets)));
                }
                self.close_block();
            }
        }
        self.close_block();
    }

    fn print_control(&mut self, name: &str, parameters: &str, control: &Control) {
        self.open_block(format_args!("control {name}({parameters})"));
        control.declarations.iter().for_each(|declaration| self.push_line(format_args!("{declaration};")));
        for action in &control.actions {
            let param = |p: &Param| format!("{} {} {}", p.direction, p.ty, p.name).trim().to_owned();
            let params: Vec<String> = action.params.iter().map(param).collect();
            self.open_block(format_args!("action {}({})", action.name, params.join(", ")));
            self.print_statements(&action.body);
            self.close_block();
        }
        control.tables.iter().for_each(|table| self.print_table(table));
        self.open_block("apply");
        self.print_statements(&control.body);
        self.close_block();
        self.close_block();
    }

    /// Prints a table.
    fn print_table(&mut self, table: &Table) {
        self.open_block(format_args!("table {}", table.name));
        if !table.keys.is_empty() {
            self.open_block("key =");
            for Key { value, kind, name } in &table.keys {
                self.push_line(format_args!("{value}: {kind} @name(\"{name}\");"));
            }
            self.close_block();
        }
        self.open_block("actions =");
        for (name, args) in &table.actions {
            self.push_line(format_args!("{name}{};", join_parts(args)));
        }
        self.close_block();
        table.properties.iter().for_each(|property| self.push_line(format_args!("{property};")));
        if !table.entries.1.is_empty() {
            self.open_block(if table.entries.0 { "const entries =" } else { "entries =" });
            table.entries.1.iter().for_each(|entry| self.push_line(format_args!("{entry};")));
            self.close_block();
        }
        self.close_block();
    }

    fn print_body(&mut self, name: &str, parameters: &str, declarations: &[String], body: &[Stmt]) {
        let control = Control { declarations: declarations.to_vec(), body: body.to_vec(), ..Control::default() };
        self.print_control(name, parameters, &control);
    }
}

fn keysets(sets: &[Keyset]) -> String {
    let one = |set: &Keyset| match set {
        Keyset::Value(v) => format!("{v:#x}"),
        Keyset::Mask(v, m) => format!("{v:#x} &&& {m:#x}"),
        Keyset::Range(lo, hi) => format!("{lo:#x} .. {hi:#x}"),
        Keyset::Set(name) => name.clone(),
        Keyset::Any => "_".to_owned(),
    };
    let sets: Vec<String> = sets.iter().map(one).collect();
    if sets.len() == 1 { sets[0].clone() } else { format!("({})", sets.join(", ")) }
}

/// The program's text.
pub fn print_program(program: &Program) -> String {
    let mut lines = Lines::default();
    match program.arch {
        Arch::V1Model => v1model(&mut lines, program),
        Arch::Pna => pna(&mut lines, program),
    }
    lines.out
}

fn v1model(lines: &mut Lines, program: &Program) {
    lines.out.push_str("#include <core.p4>\n#include <v1model.p4>\n\n");
    lines.print_types(program);
    lines.print_parser(program, "inout standard_metadata_t sm");
    let both = "inout headers_t hdr, inout metadata_t meta";
    let all = "inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm";
    lines.print_body("verify_checksums", both, &[], &program.verify);
    lines.print_control("ingress", all, &program.ingress);
    lines.print_control("egress", all, &program.egress);
    lines.print_body("compute_checksums", both, &[], &program.compute);
    lines.print_body("deparse", "packet_out packet, in headers_t hdr", &[], &program.deparser);
    lines.push_line("V1Switch(parse(), verify_checksums(), ingress(), egress(), compute_checksums(), deparse()) main;");
}

/// Prints the program for PNA. The pre-control is empty.
fn pna(lines: &mut Lines, program: &Program) {
    lines.out.push_str("#include <core.p4>\n#include <pna.p4>\n#include <terrace.p4>\n\n");
    lines.print_types(program);
    lines.print_parser(program, "in pna_main_parser_input_metadata_t istd");
    lines.print_body(
        "pre",
        "in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd",
        &[],
        &[],
    );
    lines.print_control(
        "ingress",
        "inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd",
        &program.ingress,
    );
    lines.print_body(
        "deparse",
        "packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd",
        &program.deparser_declarations,
        &program.deparser,
    );
    lines.push_line("PNA_NIC(parse(), pre(), ingress(), deparse()) main;");
}
