//! Prints programs as P4 text.

use super::tree::{Arg, BYTES, CELLS, Call, Callee, Code, CodeKind, Dir, Expr, FIELDS, Op, Place, Program, Root};
use super::tree::{PathStep, STACK, STATE, Stmt, Table, Ty};
use std::fmt::Write;

/// Appends a line to the text.
macro_rules! line {
    ($out:expr, $($format:tt)*) => {{
        let _ = writeln!($out, $($format)*);
    }};
}

/// Names of the fields of structs, and of the members of unions.
const NAMES: [[&str; FIELDS]; 2] = [["f", "g", "h"], ["x", "y", "z"]];

/// Code that computes the initial state from a packet's bytes, equivalent to
/// [`super::value::state`].
const BEGIN: &str = "        pkt.extract(hdr.i);
        m.x0 = hdr.i.b0; m.x1 = hdr.i.b1; m.x2 = hdr.i.b2; m.x3 = hdr.i.b3;
        m.p0 = (p_t){hdr.i.b4, hdr.i.b5, hdr.i.b6};
        m.p1 = (p_t){hdr.i.b6, hdr.i.b7, hdr.i.b8};
        hdr.s[0] = (s_t){hdr.i.b3};
        hdr.s[1] = (s_t){hdr.i.b4};
        if (hdr.i.b9[0:0] == 1) { hdr.s[2] = (s_t){hdr.i.b5}; }
        hdr.k0 = (s_t){hdr.i.b6};
        if (hdr.i.b9[1:1] == 1) { hdr.k1 = (s_t){hdr.i.b7}; }
        if (hdr.i.b9[2:2] == 1) { hdr.u0.x = (s_t){hdr.i.b8}; }
        if (hdr.i.b9[3:3] == 1) { hdr.u1.y = (s_t){hdr.i.b0}; } else { hdr.u1.z = (s_t){hdr.i.b1}; }
";

/// Prints the program.
pub fn print_program(program: &Program) -> String {
    let printer = Printer { program };
    let mut out = declarations();
    for (n, code) in program.codes.iter().enumerate().filter(|(_, code)| code.kind != CodeKind::Action) {
        printer.code(&mut out, n, code);
    }
    printer.parser(&mut out);
    line!(out, "control V(inout headers hdr, inout meta_t m) {{ apply {{ }} }}");
    printer.ingress(&mut out);
    append_egress(&mut out);
    line!(out, "control U(inout headers hdr, inout meta_t m) {{ apply {{ }} }}");
    line!(out, "control D(packet_out pkt, in headers hdr) {{ apply {{ pkt.emit(hdr.o); }} }}");
    line!(out, "V1Switch(P(), V(), I(), E(), U(), D()) main;");
    out
}

fn declarations() -> String {
    let bytes = |count: usize| (0..count).map(|n| format!("bit<8> b{n}; ")).collect::<String>();
    let mut out = String::from("#include <core.p4>\n#include <v1model.p4>\n");
    line!(out, "header s_t {{ bit<8> v; }}");
    line!(out, "header_union u_t {{ s_t x; s_t y; s_t z; }}");
    line!(out, "struct p_t {{ bit<8> f; bit<8> g; bit<8> h; }}");
    line!(out, "header i_t {{ {}}}", bytes(BYTES));
    line!(out, "header o_t {{ {}}}", bytes(sent_expressions().len()));
    line!(out, "struct headers {{ i_t i; s_t[{STACK}] s; s_t k0; s_t k1; u_t u0; u_t u1; o_t o; }}");
    line!(out, "struct meta_t {{ bit<8> x0; bit<8> x1; bit<8> x2; bit<8> x3; p_t p0; p_t p1; }}");
    line!(out, "register<bit<8>>({CELLS}) r;");
    out
}

/// Returns the expressions of all sent bytes except the register's.
fn sent_expressions() -> Vec<String> {
    let mut out = Vec::new();
    let header = |out: &mut Vec<String>, name: String| {
        out.push(format!("({name}.isValid() ? 8w1 : 8w0)"));
        out.push(format!("{name}.v"));
    };
    for (name, ty) in STATE {
        match ty {
            Ty::Header => header(&mut out, name.to_owned()),
            Ty::Union => NAMES[1].iter().for_each(|member| header(&mut out, format!("{name}.{member}"))),
            Ty::Stack => (0..STACK).for_each(|n| header(&mut out, format!("{name}[{n}]"))),
            Ty::Struct => NAMES[0].iter().for_each(|field| out.extend(["1".to_owned(), format!("{name}.{field}")])),
            Ty::Bits | Ty::Nibble | Ty::Bool => out.extend(["1".to_owned(), name.to_owned()]),
        }
    }
    out.extend((0..CELLS * 2).map(|_| "1".to_owned()));
    out
}

fn append_egress(out: &mut String) {
    let observed = sent_expressions();
    line!(out, "control E(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {{ apply {{");
    line!(out, "    hdr.o.setValid();");
    for (n, value) in observed.iter().enumerate() {
        line!(out, "    hdr.o.b{n} = {value};");
    }
    for cell in 0..CELLS {
        line!(out, "    r.read(hdr.o.b{}, {cell});", observed.len() - 2 * (CELLS - cell) + 1);
    }
    line!(out, "}} }}");
}

struct Printer<'p> {
    program: &'p Program,
}

impl Printer<'_> {
    fn parser(&self, out: &mut String) {
        line!(out, "parser P(packet_in pkt, out headers hdr, inout meta_t m, inout standard_metadata_t sm) {{");
        line!(out, "    state start {{");
        out.push_str(BEGIN);
        self.stmts(out, &self.program.parser, 2);
        let [first, second] = self.program.select.each_ref().map(|e| self.expr(e));
        line!(out, "        transition select(({first})[0:0], ({second})[0:0]) {{ (1, 0): one; default: other; }}");
        line!(out, "    }}");
        line!(out, "    state one {{ m.x3 = m.x3 ^ 0x55; transition accept; }}");
        line!(out, "    state other {{ m.x2 = m.x2 ^ 0xaa; transition accept; }}\n}}");
    }

    fn ingress(&self, out: &mut String) {
        line!(out, "control I(inout headers hdr, inout meta_t m, inout standard_metadata_t sm) {{");
        for (n, code) in self.program.codes.iter().enumerate() {
            match code.kind {
                CodeKind::Action => self.code(out, n, code),
                CodeKind::Control => line!(out, "    C{n}() c{n};"),
                CodeKind::Function => {}
            }
        }
        self.program.tables.iter().enumerate().for_each(|(n, table)| self.table(out, n, table));
        line!(out, "    apply {{\n        sm.egress_spec = 1;");
        self.stmts(out, &self.program.ingress, 2);
        line!(out, "    }}\n}}");
    }

    fn table(&self, out: &mut String, n: usize, table: &Table) {
        line!(out, "    table t{n} {{\n        key = {{");
        for (k, key) in table.keys.iter().enumerate() {
            line!(out, "            ({})[0:0] : exact @name(\"k{k}\");", self.expr(key));
        }
        line!(out, "        }}\n        actions = {{");
        table.actions.iter().for_each(|action| line!(out, "            {};", self.call(action)));
        line!(out, "        }}\n        const entries = {{");
        for (keys, action) in &table.entries {
            let keys = keys.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
            line!(out, "            ({keys}) : {};", self.call(&table.actions[*action]));
        }
        line!(out, "        }}");
        if let Some(default) = table.actions.last() {
            line!(out, "        const default_action = {};", self.call(default));
        }
        line!(out, "    }}");
    }

    fn code(&self, out: &mut String, n: usize, code: &Code) {
        let params = code.params.iter().enumerate().map(|(n, param)| {
            let dir = match param.dir {
                Dir::In => "in",
                Dir::Out => "out",
                Dir::InOut => "inout",
            };
            let default = param.default.map_or(String::new(), |value| format!(" = {value}"));
            format!("{dir} {} p{n}{default}", ty(param.ty))
        });
        let params = params.collect::<Vec<_>>().join(", ");
        match code.kind {
            CodeKind::Function => line!(out, "{} f{n}({params}) {{", code.result.map_or("void", ty)),
            CodeKind::Action => line!(out, "    action a{n}({params}) {{"),
            CodeKind::Control => line!(out, "control C{n}({params}) {{ apply {{"),
        }
        self.stmts(out, &code.body, 1);
        line!(out, "{}", if code.kind == CodeKind::Control { "} }" } else { "}" });
    }

    fn stmts(&self, out: &mut String, stmts: &[Stmt], depth: usize) {
        stmts.iter().for_each(|stmt| self.stmt(out, stmt, depth));
    }

    fn block(&self, out: &mut String, head: &str, stmts: &[Stmt], depth: usize) {
        let pad = "    ".repeat(depth);
        line!(out, "{pad}{head} {{");
        self.stmts(out, stmts, depth + 1);
        line!(out, "{pad}}}");
    }

    /// Prints a statement at an indentation of `depth` steps. Widths and loop bounds are kept small
    /// by masks, as the evaluator does.
    fn stmt(&self, out: &mut String, stmt: &Stmt, depth: usize) {
        let pad = "    ".repeat(depth);
        match stmt {
            Stmt::Assign(place, value) if place.ty == Ty::Nibble => {
                line!(out, "{pad}{} = (bit<4>)({});", self.place(place), self.expr(value))
            }
            Stmt::Assign(place, value) => line!(out, "{pad}{} = {};", self.place(place), self.expr(value)),
            Stmt::Compound(op, place, value) => {
                line!(out, "{pad}{} {}= {};", self.place(place), operator(*op), self.expr(value))
            }
            Stmt::Var(local, of, value) => line!(out, "{pad}{} l{local} = {};", ty(*of), self.expr(value)),
            Stmt::Call(call) => line!(out, "{pad}{};", self.call(call)),
            Stmt::SetValid(place, valid) => {
                line!(out, "{pad}{}.{}();", self.place(place), if *valid { "setValid" } else { "setInvalid" })
            }
            Stmt::Shift(place, push, count) => {
                let method = if *push { "push_front" } else { "pop_front" };
                line!(out, "{pad}{}.{method}({count});", self.place(place));
            }
            Stmt::If(condition, yes, no) => {
                self.block(out, &format!("if ({})", self.expr(condition)), yes, depth);
                if !no.is_empty() {
                    self.block(out, "else", no, depth);
                }
            }
            Stmt::Switch(selector, cases, default_body) => {
                line!(out, "{pad}switch (({}) & 3) {{", self.expr(selector));
                cases.iter().for_each(|(value, body)| self.block(out, &format!("{value}:"), body, depth + 1));
                self.block(out, "default:", default_body, depth + 1);
                line!(out, "{pad}}}");
            }
            Stmt::ForIn(local, from, to, body) => {
                let (from, to) = (self.expr(from), self.expr(to));
                self.block(out, &format!("for (bit<8> l{local} in (({from}) & 3) .. (({to}) & 3))"), body, depth);
            }
            Stmt::For(l, count, condition, body) => {
                let condition = self.expr(condition);
                let loop_header = format!("for (bit<8> l{l} = 0; l{l} < {count} && {condition}; l{l} = l{l} + 1)");
                self.block(out, &loop_header, body, depth);
            }
            Stmt::Apply(table, follow) if follow.is_empty() => line!(out, "{pad}t{table}.apply();"),
            Stmt::Apply(table, arms) => {
                line!(out, "{pad}switch (t{table}.apply().action_run) {{");
                for (action, body) in self.program.tables[*table].actions.iter().zip(arms) {
                    if let Callee::Code(n) = action.callee {
                        self.block(out, &format!("a{n}:"), body, depth + 1);
                    }
                }
                line!(out, "{pad}}}");
            }
            Stmt::Return(None) => line!(out, "{pad}return;"),
            Stmt::Return(Some(value)) => line!(out, "{pad}return {};", self.expr(value)),
            Stmt::Exit => line!(out, "{pad}exit;"),
        }
    }

    /// Prints a place: its root, and the path of fields, indices and slices. An index is taken
    /// modulo the length of a stack.
    fn place(&self, place: &Place) -> String {
        let mut ty_so_far = place.of;
        let mut text = match place.root {
            Root::State(index) => STATE[index].0.to_owned(),
            Root::Param(index) => format!("p{index}"),
            Root::Local(index) => format!("l{index}"),
        };
        for step in &place.steps {
            match step {
                PathStep::Field(0) if ty_so_far == Ty::Header => text.push_str(".v"),
                PathStep::Field(index) => {
                    let _ = write!(text, ".{}", NAMES[usize::from(ty_so_far == Ty::Union)][*index]);
                }
                PathStep::Index(index) => {
                    let _ = write!(text, "[({}) & 3]", self.expr(index));
                }
                PathStep::Slice(lo) => {
                    let _ = write!(text, "[{}:{lo}]", lo + 3);
                }
                PathStep::SliceAt(lo) => {
                    let _ = write!(text, "[(({}) & 3)+:4]", self.expr(lo));
                }
            }
            ty_so_far = match (step, ty_so_far) {
                (PathStep::Index(_), _) | (PathStep::Field(_), Ty::Union) => Ty::Header,
                _ => Ty::Bits,
            };
        }
        text
    }

    /// Prints an expression with parentheses around each operation.
    fn expr(&self, expr: &Expr) -> String {
        match expr {
            Expr::Const(bits) => format!("8w{bits}"),
            Expr::Bool(truth) => truth.to_string(),
            Expr::Read(place) => self.place(place),
            Expr::Widen(place) => format!("(bit<8>)({})", self.place(place)),
            Expr::Binary(op, a, b) => format!("({} {} {})", self.expr(a), operator(*op), self.expr(b)),
            Expr::Concat(a, b) => format!("({} ++ {})[11:4]", self.expr(a), self.expr(b)),
            Expr::SliceAt(a, b) => format!("(bit<8>)(({})[(({}) & 3)+:4])", self.expr(a), self.expr(b)),
            Expr::Mux(c, a, b) => format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b)),
            Expr::Equal(equal, a, b) => {
                format!("({} {} {})", self.expr(a), if *equal { "==" } else { "!=" }, self.expr(b))
            }
            Expr::Less(a, b) => format!("({} < {})", self.expr(a), self.expr(b)),
            Expr::Logic(and, a, b) => format!("({} {} {})", self.expr(a), if *and { "&&" } else { "||" }, self.expr(b)),
            Expr::Not(a) => format!("!({})", self.expr(a)),
            Expr::IsValid(place) => format!("{}.isValid()", self.place(place)),
            Expr::Hit(table, hit) => format!("t{table}.apply().{}", if *hit { "hit" } else { "miss" }),
            Expr::Call(call) => self.call(call),
            Expr::Struct(fields) => self.fields(fields),
            Expr::Header(field) => format!("(s_t){{{}}}", self.expr(field)),
            Expr::Invalid(of) => format!("({}){{#}}", ty(*of)),
            Expr::Part(whole, n) => {
                let name = if whole.ty(&self.program.codes) == Ty::Header { "v" } else { NAMES[0][*n] };
                format!("({}).{name}", self.expr(whole))
            }
        }
    }

    fn fields(&self, fields: &[(usize, Expr)]) -> String {
        let named = !fields.iter().map(|(n, _)| *n).is_sorted();
        let one = |(n, value): &(usize, Expr)| {
            if named { format!("{} = {}", NAMES[0][*n], self.expr(value)) } else { self.expr(value) }
        };
        format!("(p_t){{{}}}", fields.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    /// Prints a call. Arguments may be named, and in any order then.
    fn call(&self, call: &Call) -> String {
        let (name, params) = match call.callee {
            Callee::Code(n) => {
                let code = &self.program.codes[n];
                let name = match code.kind {
                    CodeKind::Function => format!("f{n}"),
                    CodeKind::Action => format!("a{n}"),
                    CodeKind::Control => format!("c{n}.apply"),
                };
                (name, (0..code.params.len()).map(|n| format!("p{n}")).collect::<Vec<_>>())
            }
            Callee::RegisterRead => ("r.read".to_owned(), vec!["result".to_owned(), "index".to_owned()]),
            Callee::RegisterWrite => ("r.write".to_owned(), vec!["index".to_owned(), "value".to_owned()]),
        };
        let argument_text = |(n, arg): &(usize, Arg)| {
            let text = match arg {
                Arg::In(value) if params[*n] == "index" => format!("(bit<32>)(({}) & 3)", self.expr(value)),
                Arg::In(value) if self.is_nibble(call.callee, *n) => format!("(bit<4>)({})", self.expr(value)),
                Arg::In(value) => self.expr(value),
                Arg::Place(place) => self.place(place),
                Arg::Nothing => "_".to_owned(),
            };
            if call.named { format!("{} = {text}", params[*n]) } else { text }
        };
        format!("{name}({})", call.args.iter().map(argument_text).collect::<Vec<_>>().join(", "))
    }

    fn is_nibble(&self, callee: Callee, n: usize) -> bool {
        matches!(callee, Callee::Code(code) if self.program.codes[code].params[n].ty == Ty::Nibble)
    }
}

fn ty(ty: Ty) -> &'static str {
    match ty {
        Ty::Bits => "bit<8>",
        Ty::Nibble => "bit<4>",
        Ty::Bool => "bool",
        Ty::Header => "s_t",
        Ty::Union => "u_t",
        Ty::Struct => "p_t",
        Ty::Stack => "s_t[4]",
    }
}

fn operator(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::And => "&",
        Op::Or => "|",
        Op::Xor => "^",
    }
}
