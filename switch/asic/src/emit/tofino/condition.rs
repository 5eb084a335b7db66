//! Conditions as gateways decide them: equality with constants under masks, on few bits; wider ones are small tables.

use super::check_table::Check;
use super::prefixes::{self, mirrored, ones};
use crate::emit::Res;
use crate::emit::body::Writer;
use crate::emit::expr::{self, Expr, Form};
use crate::emit::text::{Stmt, conditional, line};
use ir::*;
use num_bigint::BigUint;

/// What a gateway can compare: 4 bytes and 12 bits.
pub(super) const GATEWAY_BITS: u32 = 44;
/// Comparisons that become more prefixes than this are subtractions instead.
const MAX_PREFIXES: usize = 3;
/// Entries of a table that decides a condition.
const MAX_ENTRIES: usize = 64;

/// A condition in negation normal form.
#[derive(Clone, Debug)]
enum Cond {
    Known(bool),
    Test(Test),
    /// Anything else, as text, with the bits that it reads.
    Raw(String, u32),
    All(Vec<Cond>),
    Any(Vec<Cond>),
}

/// Bits of something equal, or not, a constant.
#[derive(Clone, Debug)]
struct Test {
    base: String,
    width: u32,
    hi: u32,
    lo: u32,
    value: BigUint,
    /// Within `hi..=lo`; all ones mostly.
    mask: BigUint,
    equal: bool,
    /// The base is a bool.
    truth: bool,
}

/// How a condition is decided.
pub(in crate::emit) enum Decision {
    /// At once: by one gateway, or a lookup.
    Gateway(String),
    /// One part after the other.
    Parts(Parts),
}

/// A condition that is `found` if one of these holds, and otherwise its opposite.
pub(in crate::emit) struct Parts {
    conds: Vec<String>,
    found: bool,
}

impl Writer<'_, '_> {
    /// A condition as text that a gateway takes, and what has to be done before.
    pub(in crate::emit) fn condition(&mut self, cond: Value) -> Res<(Vec<Stmt>, String)> {
        let (mut before, decision) = self.decision(cond)?;
        let text = match decision {
            Decision::Gateway(text) => text,
            Decision::Parts(parts) => self.held(&parts, &mut before),
        };
        Ok((before, text))
    }

    /// Code that a decision is about.
    pub(in crate::emit) fn decided(&mut self, decision: Decision, then: Vec<Stmt>, els: Vec<Stmt>) -> Vec<Stmt> {
        let parts = match decision {
            Decision::Gateway(text) => return conditional(&text, then, els),
            Decision::Parts(parts) => parts,
        };
        // What is short is written at each part: one step less than asking whether one of them held.
        if is_short(if parts.found { &then } else { &els }) {
            let (yes, no) = if parts.found { (then, els) } else { (els, then) };
            let chain = |code, part: &String| conditional(part, yes.clone(), code);
            return parts.conds.iter().rev().fold(no, chain);
        }
        let mut code = Vec::new();
        let text = self.held(&parts, &mut code);
        code.extend(conditional(&text, then, els));
        code
    }

    /// How a condition is decided, and what has to be done before.
    pub(in crate::emit) fn decision(&mut self, cond: Value) -> Res<(Vec<Stmt>, Decision)> {
        let mut before = Vec::new();
        let tree = self.tree_of(cond, true, &mut before)?;
        if mixed(&tree) {
            return Ok((before, in_parts(&tree)));
        }
        if bits(&tree) <= GATEWAY_BITS && widest(&tree) <= 32 {
            return Ok((before, Decision::Gateway(text(&tree).0)));
        }
        let decision = match (entries(&tree), entries(&negated(&tree))) {
            (Some(yes), Some(no)) if no.len() < yes.len() => self.check(cond, no, false),
            (Some(yes), _) => self.check(cond, yes, true),
            (None, Some(no)) => self.check(cond, no, false),
            (None, None) => in_parts(&tree),
        };
        Ok((before, decision))
    }

    /// Whether one of the parts holds, or all: a variable that they are put into.
    fn held(&mut self, parts: &Parts, before: &mut Vec<Stmt>) -> String {
        let name = self.e.names.fresh("holds");
        self.declare("bool", &name);
        let set = |value: bool| vec![line(format!("{name} = {value};"))];
        let chain = |code, part: &String| vec![Stmt::If { cond: part.clone(), then: set(parts.found), els: code }];
        before.extend(parts.conds.iter().rev().fold(set(!parts.found), chain));
        name
    }

    /// Sets a bool.
    pub(in crate::emit) fn set_bool(&mut self, name: &str, value: Value) -> Res<Vec<Stmt>> {
        let (mut code, cond) = self.condition(value)?;
        if cond == "true" || cond == "false" {
            code.push(line(format!("{name} = {cond};")));
            return Ok(code);
        }
        let (yes, no) = (vec![line(format!("{name} = true;"))], vec![line(format!("{name} = false;"))]);
        code.push(Stmt::If { cond, then: yes, els: no });
        Ok(code)
    }

    fn tree_of(&mut self, cond: Value, positive: bool, before: &mut Vec<Stmt>) -> Res<Cond> {
        let inst = match self.is_saved(cond) {
            true => None,
            false => self.inst(cond).cloned(),
        };
        let flip = |a: Vec<Cond>, all: bool| if all == positive { Cond::All(a) } else { Cond::Any(a) };
        Ok(match inst {
            Some(Inst::Const(c)) => Cond::Known((c.bits != BigUint::ZERO) == positive),
            Some(Inst::Unary(UnaryOp::LogicalNot, a)) => self.tree_of(a, !positive, before)?,
            Some(Inst::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b)) => {
                let both = vec![self.tree_of(a, positive, before)?, self.tree_of(b, positive, before)?];
                flip(both, op == BinaryOp::And)
            }
            Some(Inst::Binary(op, a, b)) if op.is_comparison() => self.comparison(op, a, b, positive, before)?,
            _ => self.truth(self.text(cond), positive),
        })
    }

    fn truth(&self, base: String, positive: bool) -> Cond {
        let one = BigUint::from(1u8);
        Cond::Test(Test { base, width: 1, hi: 0, lo: 0, value: one.clone(), mask: one, equal: positive, truth: true })
    }

    fn comparison(&mut self, op: BinaryOp, a: Value, b: Value, positive: bool, before: &mut Vec<Stmt>) -> Res<Cond> {
        let ty = self.graph.body.value_type(a);
        let width = ty.width();
        let constant = |w: &Self, v: Value| match w.inst(v) {
            Some(Inst::Const(c)) => Some(c.bits.clone()),
            _ => None,
        };
        let (left, right) = (constant(self, a), constant(self, b));
        let equal = matches!(op, BinaryOp::Eq) == positive;
        if !matches!(ty, Type::Bit(_) | Type::Int(_)) {
            let sign = if equal { "==" } else { "!=" };
            let side = |value: Value| {
                let text = self.typed(value);
                if self.value(value).is_simple() { text } else { format!("({text})") }
            };
            return Ok(Cond::Raw(format!("{} {sign} {}", side(a), side(b)), 2 * width));
        }
        match (op, left, right) {
            (BinaryOp::Eq | BinaryOp::Ne, None, Some(c)) => Ok(self.equality(a, c, equal, before)),
            (BinaryOp::Eq | BinaryOp::Ne, Some(c), None) => Ok(self.equality(b, c, equal, before)),
            (BinaryOp::Eq | BinaryOp::Ne, ..) => {
                let (x, y) = (self.simple(a, before), self.simple(b, before));
                let sign = if equal { "==" } else { "!=" };
                Ok(Cond::Raw(format!("{x} {sign} {y}"), 2 * width))
            }
            (_, None, Some(c)) if !ty.is_signed() => self.order(op, a, c, positive, before),
            (_, Some(c), None) if !ty.is_signed() => self.order(mirrored(op), b, c, positive, before),
            _ if ty.is_signed() => self.e.unsupported(self.loc, "a comparison of signed numbers"),
            _ => {
                let (x, y) = (self.simple(a, before), self.simple(b, before));
                self.difference(op, width, x, y, positive, before)
            }
        }
    }

    /// A value that depends on a condition: an ALU does not choose, a gateway does. It is in the variable that it goes to, if that is known, as to move it there
    /// would be a step of its own.
    pub(in crate::emit) fn choose(
        &mut self,
        result: Value,
        [cond, then, els]: [Value; 3],
        into: Option<VarId>,
    ) -> Res<()> {
        let ty = self.graph.body.value_type(result);
        let name = match into {
            Some(var) => self.e.var(var),
            None => {
                let name = self.e.names.fresh("value");
                self.declare(&expr::type_text(self.p, ty), &name);
                name
            }
        };
        let (mut code, test) = self.condition(cond)?;
        let mut set = |value: Value| -> Res<Vec<Stmt>> {
            if ty == Type::Bool && !self.value(value).is_simple() {
                return self.set_bool(&name, value);
            }
            Ok(vec![line(format!("{name} = {};", self.text(value)))])
        };
        let (yes, no) = (set(then)?, set(els)?);
        code.push(Stmt::If { cond: test, then: yes, els: no });
        self.out.extend(code);
        self.keep(result, name);
        Ok(())
    }

    /// An operand as a name or constant: a variable of its own if it is more.
    fn simple(&mut self, value: Value, before: &mut Vec<Stmt>) -> String {
        let expr = self.value(value);
        if expr.is_simple() {
            return expr.typed().to_owned();
        }
        let ty = expr::type_text(self.p, self.graph.body.value_type(value));
        let name = self.e.names.fresh("operand");
        self.declare(&ty, &name);
        before.push(line(format!("{name} = {};", expr.text)));
        name
    }

    /// `x > y` is `(x |-| y) != 0`, and so on.
    fn difference(
        &mut self,
        op: BinaryOp,
        width: u32,
        x: String,
        y: String,
        positive: bool,
        before: &mut Vec<Stmt>,
    ) -> Res<Cond> {
        let (x, y) = if matches!(op, BinaryOp::Gt | BinaryOp::Le) { (x, y) } else { (y, x) };
        let name = self.e.names.fresh("excess");
        // An ALU clamps at the width of its container.
        let whole = [8, 16, 32].into_iter().find(|w| *w >= width).unwrap_or(width);
        let mut widened = |operand: String| {
            if whole == width {
                return operand;
            }
            if let Some(number) = operand.strip_prefix(&format!("{width}w")) {
                return format!("{whole}w{number}");
            }
            let name = self.e.names.fresh("widened");
            self.declare(&format!("bit<{whole}>"), &name);
            before.push(line(format!("{name} = (bit<{whole}>) {operand};")));
            name
        };
        let (x, y) = (widened(x), widened(y));
        let width = whole;
        self.declare(&format!("bit<{width}>"), &name);
        before.push(line(format!("{name} = {x} |-| {y};")));
        let zero = matches!(op, BinaryOp::Le | BinaryOp::Ge) == positive;
        let mask = ones(width);
        Ok(Cond::Test(Test {
            base: name,
            width,
            hi: width - 1,
            lo: 0,
            value: BigUint::ZERO,
            mask,
            equal: zero,
            truth: false,
        }))
    }

    fn equality(&mut self, value: Value, wanted: BigUint, equal: bool, before: &mut Vec<Stmt>) -> Cond {
        let width = self.graph.body.value_type(value).width();
        let whole = |base: String, mask: BigUint| {
            Cond::Test(Test { base, width, hi: width - 1, lo: 0, value: wanted.clone(), mask, equal, truth: false })
        };
        if self.is_saved(value) {
            return whole(self.text(value), ones(width));
        }
        match self.inst(value).cloned() {
            Some(Inst::Binary(BinaryOp::And, a, b)) => match self.inst(b).cloned() {
                Some(Inst::Const(mask)) if &wanted & &mask.bits != wanted => Cond::Known(!equal),
                Some(Inst::Const(mask)) => whole(self.simple(a, before), mask.bits),
                _ => whole(self.simple(value, before), ones(width)),
            },
            Some(Inst::Slice { value: base, hi, lo }) => {
                let of = self.graph.body.value_type(base).width();
                let (base, mask) = (self.simple(base, before), ones(width));
                Cond::Test(Test { base, width: of, hi, lo, value: wanted, mask, equal, truth: false })
            }
            _ => whole(self.simple(value, before), ones(width)),
        }
    }

    /// A comparison with a constant, as prefixes.
    fn order(&mut self, op: BinaryOp, a: Value, c: BigUint, positive: bool, before: &mut Vec<Stmt>) -> Res<Cond> {
        let width = self.graph.body.value_type(a).width();
        let one = BigUint::from(1u8);
        // All are: below `bound`, or not.
        let (bound, below) = match op {
            BinaryOp::Lt => (c.clone(), true),
            BinaryOp::Le => (&c + &one, true),
            BinaryOp::Gt => (&c + &one, false),
            _ => (c.clone(), false),
        };
        let below = below == positive;
        if bound >= (&one << width) {
            return Ok(Cond::Known(below));
        }
        // Prefixes of what is below the bound, or of what is not: whichever is fewer.
        let under = prefixes::below(&bound, width);
        let over = prefixes::from(&bound, width);
        let of_under = under.len() <= over.len();
        let prefixes = if of_under { under } else { over };
        if prefixes.len() > MAX_PREFIXES {
            let x = self.simple(a, before);
            let y = format!("{width}w{}", expr::number(&c));
            return self.difference(op, width, x, y, positive, before);
        }
        let equal = below == of_under;
        let base = self.simple(a, before);
        let test = |(value, mask): (BigUint, BigUint)| {
            Cond::Test(Test { base: base.clone(), width, hi: width - 1, lo: 0, value, mask, equal, truth: false })
        };
        let tests: Vec<Cond> = prefixes.into_iter().map(test).collect();
        Ok(if equal { Cond::Any(tests) } else { Cond::All(tests) })
    }

    /// A table that hits where one of the entries matches: where the condition is `holds`.
    fn check(&mut self, cond: Value, entries: Vec<Vec<Test>>, holds: bool) -> Decision {
        let mut keys: Vec<(String, u32, bool)> = Vec::new();
        for test in entries.iter().flatten() {
            if !keys.iter().any(|(base, ..)| *base == test.base) {
                keys.push((test.base.clone(), test.width, test.truth));
            }
        }
        let name = self.e.names.fresh("check");
        let count = entries.len() as u64;
        self.e.checks.push(Check { name: name.clone(), body: self.graph.body, cond, entries: count, holds });
        let mut text = vec![format!("action {name}_holds() {{ }}"), format!("table {name} {{")];
        text.push("    key = {".into());
        text.extend(keys.iter().map(|(base, ..)| format!("        {base}: ternary;")));
        text.push("    }".into());
        text.push(format!("    actions = {{ {name}_holds; NoAction; }}"));
        text.push("    const default_action = NoAction();".into());
        text.push("    const entries = {".into());
        for entry in &entries {
            let item = |(base, width, truth): &(String, u32, bool)| item(entry, base, *width, *truth);
            let items: Vec<String> = keys.iter().map(item).collect();
            let items = if items.len() == 1 { items[0].clone() } else { format!("({})", items.join(", ")) };
            text.push(format!("        {items}: {name}_holds();"));
        }
        text.push("    }".into());
        text.push(format!("    size = {};", entries.len()));
        text.push("}".into());
        self.decls.extend(text);
        Decision::Gateway(format!("{}{name}.apply().hit", if holds { "" } else { "!" }))
    }

    fn inst(&self, value: Value) -> Option<&Inst> {
        let block = self.graph.defined_in(value)?;
        self.graph.body.blocks[block].insts.iter().find(|i| i.results.contains(&value)).map(|i| &i.inst)
    }

    /// What is sliced, widened or joined: what an ALU has to compute is computed before.
    pub(in crate::emit) fn part(&mut self, value: Value, block: Block) -> Res<()> {
        match self.value(value).form {
            Form::Const | Form::Primary | Form::Chain("++") => Ok(()),
            Form::Prefix | Form::Chain(_) | Form::Compare | Form::Other => self.save(value, block),
        }
    }

    /// An operand that an ALU takes: what is more is computed before.
    pub(in crate::emit) fn operand(&mut self, value: Value, block: Block) -> Res<()> {
        let expr: Expr = self.value(value);
        let plain = !expr.text.starts_with('(') && !expr.text.contains('[');
        let is_operand = expr.form == Form::Const || (expr.form == Form::Primary && plain);
        if is_operand { Ok(()) } else { self.save(value, block) }
    }
}

/// A condition that no gateway decides at once, and no table.
fn in_parts(tree: &Cond) -> Decision {
    let (parts, found) = match tree {
        Cond::Any(_) => (flattened(tree), true),
        Cond::All(_) => (flattened(&negated(tree)), false),
        _ => return Decision::Gateway(text(tree).0),
    };
    if parts.len() < 2 {
        return Decision::Gateway(text(tree).0);
    }
    Decision::Parts(Parts { conds: parts.iter().map(|part| text(part).0).collect(), found })
}

/// Whether code only sets constants and leaves: such code may be there several times.
fn is_short(code: &[Stmt]) -> bool {
    let constant = |text: &str| {
        let value = text.strip_suffix(';').and_then(|text| text.split_once(" = "));
        value.is_some_and(|(_, value)| {
            value == "true"
                || value == "false"
                || value.starts_with(|c: char| c.is_ascii_digit()) && value.bytes().all(|b| b.is_ascii_alphanumeric())
        })
    };
    code.len() <= 4 && code.iter().all(|stmt| matches!(stmt, Stmt::Line(text) if text == "exit;" || constant(text)))
}

/// The item of one key in an entry.
fn item(entry: &[Test], base: &str, width: u32, truth: bool) -> String {
    let mut value = BigUint::ZERO;
    let mut mask = BigUint::ZERO;
    for test in entry.iter().filter(|t| t.base == base) {
        let wanted = if test.equal { test.value.clone() } else { BigUint::ZERO };
        value |= wanted << test.lo;
        mask |= &test.mask << test.lo;
    }
    if mask == BigUint::ZERO {
        return "_".into();
    }
    if truth {
        return (value != BigUint::ZERO).to_string();
    }
    if mask == ones(width) {
        expr::number(&value)
    } else {
        format!("{} &&& {}", expr::number(&value), expr::number(&mask))
    }
}

/// The opposite; entries can't be made of what has none.
fn negated(cond: &Cond) -> Cond {
    match cond {
        Cond::Known(known) => Cond::Known(!known),
        Cond::Raw(text, bits) => Cond::Raw(crate::emit::text::negated(text), *bits),
        Cond::Test(test) => Cond::Test(Test { equal: !test.equal, ..test.clone() }),
        Cond::All(all) => Cond::Any(all.iter().map(negated).collect()),
        Cond::Any(all) => Cond::All(all.iter().map(negated).collect()),
    }
}

/// Alternatives of alternatives are alternatives.
fn flattened(cond: &Cond) -> Vec<Cond> {
    match cond {
        Cond::Any(parts) => parts.iter().flat_map(flattened).collect(),
        other => vec![other.clone()],
    }
}

/// Whether two fields are compared, and something else is asked: a gateway does one of both.
fn mixed(cond: &Cond) -> bool {
    fn leaves(cond: &Cond) -> (usize, usize) {
        match cond {
            Cond::Known(_) => (0, 0),
            Cond::Raw(..) => (1, 1),
            Cond::Test(_) => (1, 0),
            Cond::All(all) | Cond::Any(all) => all.iter().map(leaves).fold((0, 0), |(a, b), (c, d)| (a + c, b + d)),
        }
    }
    let (all, raw) = leaves(cond);
    raw > 0 && all > 1
}

/// Bits that a condition reads, each once.
fn bits(cond: &Cond) -> u32 {
    fn walk(cond: &Cond, seen: &mut Vec<(String, u32, u32)>, raw: &mut u32) {
        match cond {
            Cond::Known(_) => {}
            Cond::Raw(_, bits) => *raw += bits,
            Cond::Test(t) => {
                let key = (t.base.clone(), t.hi, t.lo);
                if !seen.contains(&key) {
                    seen.push(key);
                }
            }
            Cond::All(all) | Cond::Any(all) => all.iter().for_each(|c| walk(c, seen, raw)),
        }
    }
    let (mut seen, mut raw) = (Vec::new(), 0);
    walk(cond, &mut seen, &mut raw);
    raw + seen.iter().map(|(_, hi, lo)| hi - lo + 1).sum::<u32>()
}

fn widest(cond: &Cond) -> u32 {
    match cond {
        Cond::Known(_) => 0,
        Cond::Raw(_, bits) => bits / 2,
        Cond::Test(t) => t.hi - t.lo + 1,
        Cond::All(all) | Cond::Any(all) => all.iter().map(widest).max().unwrap_or(0),
    }
}

/// Text, and whether it needs parentheses beside others.
fn text(cond: &Cond) -> (String, bool) {
    let joined = |all: &[Cond], sign: &str, empty: &str| {
        let part = |c: &Cond| match (text(c), c) {
            ((t, true), Cond::All(_) | Cond::Any(_)) => format!("({t})"),
            ((t, _), _) => t,
        };
        let parts: Vec<String> = all.iter().map(part).collect();
        match parts.len() {
            0 => (empty.to_owned(), false),
            n => (parts.join(sign), n > 1),
        }
    };
    match cond {
        Cond::Known(known) => (known.to_string(), false),
        Cond::Raw(text, _) => (text.clone(), true),
        Cond::Test(t) if t.truth => (if t.equal { t.base.clone() } else { format!("!{}", t.base) }, false),
        Cond::Test(t) => {
            let whole = t.hi + 1 == t.width && t.lo == 0;
            let base = if whole { t.base.clone() } else { format!("{}[{}:{}]", t.base, t.hi, t.lo) };
            let own = t.hi - t.lo + 1;
            let base = match t.mask == ones(own) {
                true => base,
                false => format!("({base} & {})", expr::number(&t.mask)),
            };
            (format!("{base} {} {}", if t.equal { "==" } else { "!=" }, expr::number(&t.value)), true)
        }
        Cond::All(all) => joined(all, " && ", "true"),
        Cond::Any(all) => joined(all, " || ", "false"),
    }
}

/// The condition as entries of a ternary table, any of which matches; `None` if it has no such form.
fn entries(cond: &Cond) -> Option<Vec<Vec<Test>>> {
    Some(match cond {
        Cond::Known(true) => vec![Vec::new()],
        Cond::Known(false) => Vec::new(),
        Cond::Raw(..) => return None,
        // That something is not equal has no entry, but for one bit.
        Cond::Test(t) if !t.equal && t.hi > t.lo => return None,
        Cond::Test(t) if !t.equal && !t.truth => {
            let value = BigUint::from(u8::from(t.value == BigUint::ZERO));
            vec![vec![Test { value, equal: true, ..t.clone() }]]
        }
        Cond::Test(t) => vec![vec![t.clone()]],
        Cond::Any(all) => {
            let mut rows = Vec::new();
            for part in all {
                rows.extend(entries(part)?);
            }
            (rows.len() <= MAX_ENTRIES).then_some(rows)?
        }
        Cond::All(all) => {
            let mut rows: Vec<Vec<Test>> = vec![Vec::new()];
            for part in all {
                let more = entries(part)?;
                let product = rows.iter().flat_map(|r| more.iter().map(move |m| [r.as_slice(), m.as_slice()].concat()));
                rows = product.collect();
                (rows.len() <= MAX_ENTRIES).then_some(())?;
            }
            rows
        }
    })
}
