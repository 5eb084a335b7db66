//! Conditions as gateways evaluate them: few bits, compared for equality with constants under
//! masks. Wider conditions become small tables.

use super::check_table::CheckTable;
use super::gateway_cond::{
    BitTest, GatewayCond, cond_text, count_bits, flatten_disjunction, mixes_field_comparison, negated, ternary_entries,
    widest_operand_bits,
};
use super::prefixes::{self, all_ones, swap_operands};
use crate::emit::EmitResult;
use crate::emit::body::BodyWriter;
use crate::emit::expr::{self, ExprPrecedence, P4Expr};
use crate::emit::text::{P4Stmt, conditional, line};
use ir::*;
use num_bigint::BigUint;

/// Bits that a gateway can compare: 4 bytes and 12 bits.
pub(super) const GATEWAY_BITS: u32 = 44;
/// Maximum number of prefixes of an order comparison; others become subtractions.
const MAX_PREFIXES: usize = 3;

/// Method that evaluates a condition.
pub(in crate::emit) enum ConditionDecision {
    /// A single gateway or lookup.
    Gateway(String),
    /// A sequence of gateways.
    Disjunction(CondDisjunction),
}

/// Disjunction that evaluates to `found` if one of the conditions holds, and to the opposite
/// otherwise.
pub(in crate::emit) struct CondDisjunction {
    conds: Vec<String>,
    found: bool,
}

impl BodyWriter<'_, '_> {
    /// Returns a condition as text that a gateway supports, and the statements that have to precede
    /// it.
    pub(in crate::emit) fn write_condition(&mut self, cond: Value) -> EmitResult<(Vec<P4Stmt>, String)> {
        let (mut before, decision) = self.decide_condition(cond)?;
        let text = match decision {
            ConditionDecision::Gateway(text) => text,
            ConditionDecision::Disjunction(parts) => self.disjunction_variable(&parts, &mut before),
        };
        Ok((before, text))
    }

    /// Emits an `if` for a decided condition, with the statements of both branches.
    pub(in crate::emit) fn write_decision(
        &mut self,
        decision: ConditionDecision,
        then: Vec<P4Stmt>,
        els: Vec<P4Stmt>,
    ) -> Vec<P4Stmt> {
        let parts = match decision {
            ConditionDecision::Gateway(text) => return conditional(&text, then, els),
            ConditionDecision::Disjunction(parts) => parts,
        };
        // Short code is duplicated for each condition, because that saves the step that tests a
        // common variable.
        if is_short(if parts.found { &then } else { &els }) {
            let (on_match, otherwise) = if parts.found { (then, els) } else { (els, then) };
            let chain = |code, part: &String| conditional(part, on_match.clone(), code);
            return parts.conds.iter().rev().fold(otherwise, chain);
        }
        let mut code = Vec::new();
        let text = self.disjunction_variable(&parts, &mut code);
        code.extend(conditional(&text, then, els));
        code
    }

    /// Chooses the method that evaluates a condition. Returns it with the statements that have to
    /// precede it.
    pub(in crate::emit) fn decide_condition(&mut self, cond: Value) -> EmitResult<(Vec<P4Stmt>, ConditionDecision)> {
        let mut before = Vec::new();
        let tree = self.cond_tree(cond, true, &mut before)?;
        if mixes_field_comparison(&tree) {
            return Ok((before, decide_in_parts(&tree)));
        }
        if count_bits(&tree) <= GATEWAY_BITS && widest_operand_bits(&tree) <= 32 {
            return Ok((before, ConditionDecision::Gateway(cond_text(&tree).0)));
        }
        let decision = match (ternary_entries(&tree), ternary_entries(&negated(&tree))) {
            (Some(yes), Some(no)) if no.len() < yes.len() => self.add_check_table(cond, no, false),
            (Some(yes), _) => self.add_check_table(cond, yes, true),
            (None, Some(no)) => self.add_check_table(cond, no, false),
            (None, None) => decide_in_parts(&tree),
        };
        Ok((before, decision))
    }

    /// Stores the value of a disjunction in a new variable and returns the variable.
    fn disjunction_variable(&mut self, parts: &CondDisjunction, before: &mut Vec<P4Stmt>) -> String {
        let name = self.e.names.fresh_name("holds");
        self.declare("bool", &name);
        let set = |value: bool| vec![line(format!("{name} = {value};"))];
        let chain = |code, part: &String| vec![P4Stmt::If { cond: part.clone(), then: set(parts.found), els: code }];
        before.extend(parts.conds.iter().rev().fold(set(!parts.found), chain));
        name
    }

    /// Assigns a condition to a bool variable.
    pub(in crate::emit) fn set_bool(&mut self, name: &str, value: Value) -> EmitResult<Vec<P4Stmt>> {
        let (mut code, cond) = self.write_condition(value)?;
        if cond == "true" || cond == "false" {
            code.push(line(format!("{name} = {cond};")));
            return Ok(code);
        }
        let (yes, no) = (vec![line(format!("{name} = true;"))], vec![line(format!("{name} = false;"))]);
        code.push(P4Stmt::If { cond, then: yes, els: no });
        Ok(code)
    }

    fn cond_tree(&mut self, cond: Value, positive: bool, before: &mut Vec<P4Stmt>) -> EmitResult<GatewayCond> {
        let inst = match self.is_saved(cond) {
            true => None,
            false => self.defining_inst(cond).cloned(),
        };
        let flip =
            |a: Vec<GatewayCond>, all: bool| if all == positive { GatewayCond::All(a) } else { GatewayCond::Any(a) };
        Ok(match inst {
            Some(Inst::Const(c)) => GatewayCond::Known((c.bits != BigUint::ZERO) == positive),
            Some(Inst::Unary(UnaryOp::LogicalNot, a)) => self.cond_tree(a, !positive, before)?,
            Some(Inst::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b)) => {
                let both = vec![self.cond_tree(a, positive, before)?, self.cond_tree(b, positive, before)?];
                flip(both, op == BinaryOp::And)
            }
            Some(Inst::Binary(op, a, b)) if op.is_comparison() => self.comparison_cond(op, a, b, positive, before)?,
            _ => self.bool_test(self.value_text(cond), positive),
        })
    }

    fn bool_test(&self, base: String, positive: bool) -> GatewayCond {
        let one = BigUint::from(1u8);
        GatewayCond::Test(BitTest {
            base,
            width: 1,
            hi: 0,
            lo: 0,
            value: one.clone(),
            mask: one,
            equal: positive,
            truth: true,
        })
    }

    /// Returns the condition `a op b`, or its negation if not `positive`, in a form of gateways.
    /// Appends statements that have to run first to `before`.
    fn comparison_cond(
        &mut self,
        op: BinaryOp,
        a: Value,
        b: Value,
        positive: bool,
        before: &mut Vec<P4Stmt>,
    ) -> EmitResult<GatewayCond> {
        let ty = self.graph.body.value_type(a);
        let width = ty.width();
        let constant = |w: &Self, v: Value| match w.defining_inst(v) {
            Some(Inst::Const(c)) => Some(c.bits.clone()),
            _ => None,
        };
        let (left, right) = (constant(self, a), constant(self, b));
        let is_equality = matches!(op, BinaryOp::Eq) == positive;
        if !matches!(ty, Type::Bit(_) | Type::Int(_)) {
            let sign = if is_equality { "==" } else { "!=" };
            let side = |value: Value| {
                let text = self.typed_text(value);
                if self.value_expr(value).is_simple() { text } else { format!("({text})") }
            };
            return Ok(GatewayCond::Raw(format!("{} {sign} {}", side(a), side(b)), 2 * width));
        }
        match (op, left, right) {
            (BinaryOp::Eq | BinaryOp::Ne, None, Some(c)) => Ok(self.equality_cond(a, c, is_equality, before)),
            (BinaryOp::Eq | BinaryOp::Ne, Some(c), None) => Ok(self.equality_cond(b, c, is_equality, before)),
            (BinaryOp::Eq | BinaryOp::Ne, ..) => {
                let (x, y) = (self.simple_operand(a, before), self.simple_operand(b, before));
                let sign = if is_equality { "==" } else { "!=" };
                Ok(GatewayCond::Raw(format!("{x} {sign} {y}"), 2 * width))
            }
            (_, None, Some(c)) if !ty.is_signed() => self.compare_by_prefixes(op, a, c, positive, before),
            (_, Some(c), None) if !ty.is_signed() => {
                self.compare_by_prefixes(swap_operands(op), b, c, positive, before)
            }
            _ if ty.is_signed() => self.e.unsupported(self.loc, "a comparison of signed numbers"),
            _ => {
                let (x, y) = (self.simple_operand(a, before), self.simple_operand(b, before));
                self.compare_by_subtraction(op, width, x, y, positive, before)
            }
        }
    }

    /// Emits a `Select` as an `if`, because a gateway selects and an ALU does not. The result goes
    /// directly to `target_var`, if given, because a move would be an additional step.
    pub(in crate::emit) fn write_select(
        &mut self,
        result: Value,
        [cond, then, els]: [Value; 3],
        target_var: Option<VarId>,
    ) -> EmitResult<()> {
        let ty = self.graph.body.value_type(result);
        let name = match target_var {
            Some(var) => self.e.var_name(var),
            None => {
                let name = self.e.names.fresh_name("value");
                self.declare(&expr::type_text(self.p, ty), &name);
                name
            }
        };
        let (mut code, test) = self.write_condition(cond)?;
        let mut assign = |value: Value| -> EmitResult<Vec<P4Stmt>> {
            if ty == Type::Bool && !self.value_expr(value).is_simple() {
                return self.set_bool(&name, value);
            }
            Ok(vec![line(format!("{name} = {};", self.value_text(value)))])
        };
        let (then_code, else_code) = (assign(then)?, assign(els)?);
        code.push(P4Stmt::If { cond: test, then: then_code, els: else_code });
        self.out.extend(code);
        self.keep_in_variable(result, name);
        Ok(())
    }

    /// Returns an operand as a name or constant; any other expression is assigned to a variable.
    fn simple_operand(&mut self, value: Value, before: &mut Vec<P4Stmt>) -> String {
        let expr = self.value_expr(value);
        if expr.is_simple() {
            return expr.typed_text().to_owned();
        }
        let ty = expr::type_text(self.p, self.graph.body.value_type(value));
        let name = self.e.names.fresh_name("operand");
        self.declare(&ty, &name);
        before.push(line(format!("{name} = {};", expr.text)));
        name
    }

    /// Compares by saturating subtraction: `x > y` becomes `(x |-| y) != 0`, and so on. `width` is
    /// in bits; `positive` is `false` for the negated comparison; `before` receives the
    /// subtraction.
    fn compare_by_subtraction(
        &mut self,
        op: BinaryOp,
        width: u32,
        x: String,
        y: String,
        positive: bool,
        before: &mut Vec<P4Stmt>,
    ) -> EmitResult<GatewayCond> {
        let (x, y) = if matches!(op, BinaryOp::Gt | BinaryOp::Le) { (x, y) } else { (y, x) };
        let name = self.e.names.fresh_name("excess");
        // An ALU saturates at the width of its container.
        let container_bits = [8, 16, 32].into_iter().find(|w| *w >= width).unwrap_or(width);
        let mut widened = |operand: String| {
            if container_bits == width {
                return operand;
            }
            if let Some(number) = operand.strip_prefix(&format!("{width}w")) {
                return format!("{container_bits}w{number}");
            }
            let name = self.e.names.fresh_name("widened");
            self.declare(&format!("bit<{container_bits}>"), &name);
            before.push(line(format!("{name} = (bit<{container_bits}>) {operand};")));
            name
        };
        let (x, y) = (widened(x), widened(y));
        let width = container_bits;
        self.declare(&format!("bit<{width}>"), &name);
        before.push(line(format!("{name} = {x} |-| {y};")));
        let is_zero_test = matches!(op, BinaryOp::Le | BinaryOp::Ge) == positive;
        let mask = all_ones(width);
        Ok(GatewayCond::Test(BitTest {
            base: name,
            width,
            hi: width - 1,
            lo: 0,
            value: BigUint::ZERO,
            mask,
            equal: is_zero_test,
            truth: false,
        }))
    }

    /// Returns the test of a value against a constant: for equality, or inequality if not `equal`.
    /// Reads through a mask or a slice, because a gateway compares under a mask.
    fn equality_cond(&mut self, value: Value, constant: BigUint, equal: bool, before: &mut Vec<P4Stmt>) -> GatewayCond {
        let width = self.graph.body.value_type(value).width();
        let whole_value_test = |base: String, mask: BigUint| {
            GatewayCond::Test(BitTest {
                base,
                width,
                hi: width - 1,
                lo: 0,
                value: constant.clone(),
                mask,
                equal,
                truth: false,
            })
        };
        if self.is_saved(value) {
            return whole_value_test(self.value_text(value), all_ones(width));
        }
        match self.defining_inst(value).cloned() {
            Some(Inst::Binary(BinaryOp::And, a, b)) => match self.defining_inst(b).cloned() {
                Some(Inst::Const(mask)) if &constant & &mask.bits != constant => GatewayCond::Known(!equal),
                Some(Inst::Const(mask)) => whole_value_test(self.simple_operand(a, before), mask.bits),
                _ => whole_value_test(self.simple_operand(value, before), all_ones(width)),
            },
            Some(Inst::Slice { value: base, hi, lo }) => {
                let base_width = self.graph.body.value_type(base).width();
                let (base, mask) = (self.simple_operand(base, before), all_ones(width));
                GatewayCond::Test(BitTest {
                    base,
                    width: base_width,
                    hi,
                    lo,
                    value: constant,
                    mask,
                    equal,
                    truth: false,
                })
            }
            _ => whole_value_test(self.simple_operand(value, before), all_ones(width)),
        }
    }

    /// Compares with a constant `c` as a set of prefixes of the values below or above it, because a
    /// gateway compares under a mask. Too many prefixes: by subtraction.
    fn compare_by_prefixes(
        &mut self,
        op: BinaryOp,
        a: Value,
        c: BigUint,
        positive: bool,
        before: &mut Vec<P4Stmt>,
    ) -> EmitResult<GatewayCond> {
        let width = self.graph.body.value_type(a).width();
        let one = BigUint::from(1u8);
        // Normalises every comparison to: below `bound`, or not.
        let (bound, wants_below) = match op {
            BinaryOp::Lt => (c.clone(), true),
            BinaryOp::Le => (&c + &one, true),
            BinaryOp::Gt => (&c + &one, false),
            _ => (c.clone(), false),
        };
        let wants_below = wants_below == positive;
        if bound >= (&one << width) {
            return Ok(GatewayCond::Known(wants_below));
        }
        // Prefixes of the values below the bound, or of the others: the smaller set.
        let prefixes_below = prefixes::prefixes_below(&bound, width);
        let prefixes_above = prefixes::prefixes_from(&bound, width);
        let is_below_smaller = prefixes_below.len() <= prefixes_above.len();
        let prefixes = if is_below_smaller { prefixes_below } else { prefixes_above };
        if prefixes.len() > MAX_PREFIXES {
            let x = self.simple_operand(a, before);
            let y = format!("{width}w{}", expr::number_text(&c));
            return self.compare_by_subtraction(op, width, x, y, positive, before);
        }
        let equal = wants_below == is_below_smaller;
        let base = self.simple_operand(a, before);
        let test = |(value, mask): (BigUint, BigUint)| {
            GatewayCond::Test(BitTest {
                base: base.clone(),
                width,
                hi: width - 1,
                lo: 0,
                value,
                mask,
                equal,
                truth: false,
            })
        };
        let tests: Vec<GatewayCond> = prefixes.into_iter().map(test).collect();
        Ok(if equal { GatewayCond::Any(tests) } else { GatewayCond::All(tests) })
    }

    /// Adds a table with the given entries, each a conjunction of tests. A hit means that the
    /// condition has the value `holds`.
    fn add_check_table(&mut self, cond: Value, entries: Vec<Vec<BitTest>>, holds: bool) -> ConditionDecision {
        let mut keys: Vec<(String, u32, bool)> = Vec::new();
        for test in entries.iter().flatten() {
            if !keys.iter().any(|(base, ..)| *base == test.base) {
                keys.push((test.base.clone(), test.width, test.truth));
            }
        }
        let name = self.e.names.fresh_name("check");
        let count = entries.len() as u64;
        self.e.check_tables.push(CheckTable { name: name.clone(), body: self.graph.body, cond, entries: count, holds });
        let mut text = vec![format!("action {name}_holds() {{ }}"), format!("table {name} {{")];
        text.push("    key = {".into());
        text.extend(keys.iter().map(|(base, ..)| format!("        {base}: ternary;")));
        text.push("    }".into());
        text.push(format!("    actions = {{ {name}_holds; NoAction; }}"));
        text.push("    const default_action = NoAction();".into());
        text.push("    const entries = {".into());
        for entry in &entries {
            let item = |(base, width, truth): &(String, u32, bool)| entry_item(entry, base, *width, *truth);
            let items: Vec<String> = keys.iter().map(item).collect();
            let items = if items.len() == 1 { items[0].clone() } else { format!("({})", items.join(", ")) };
            text.push(format!("        {items}: {name}_holds();"));
        }
        text.push("    }".into());
        text.push(format!("    size = {};", entries.len()));
        text.push("}".into());
        self.decls.extend(text);
        ConditionDecision::Gateway(format!("{}{name}.apply().hit", if holds { "" } else { "!" }))
    }

    fn defining_inst(&self, value: Value) -> Option<&Inst> {
        let block = self.graph.defined_in(value)?;
        self.graph.body.blocks[block].insts.iter().find(|i| i.results.contains(&value)).map(|i| &i.inst)
    }

    /// Saves the base of a slice, cast or concatenation, if an ALU has to compute it first.
    pub(in crate::emit) fn save_computed_base(&mut self, value: Value, block: Block) -> EmitResult<()> {
        match self.value_expr(value).precedence {
            ExprPrecedence::Const | ExprPrecedence::Primary | ExprPrecedence::Chain("++") => Ok(()),
            ExprPrecedence::Prefix | ExprPrecedence::Chain(_) | ExprPrecedence::Compare | ExprPrecedence::Other => {
                self.save_value(value, block)
            }
        }
    }

    /// Saves an operand that an ALU cannot read directly.
    pub(in crate::emit) fn save_complex_operand(&mut self, value: Value, block: Block) -> EmitResult<()> {
        let expr: P4Expr = self.value_expr(value);
        let plain = !expr.text.starts_with('(') && !expr.text.contains('[');
        let is_operand =
            expr.precedence == ExprPrecedence::Const || (expr.precedence == ExprPrecedence::Primary && plain);
        if is_operand { Ok(()) } else { self.save_value(value, block) }
    }
}

/// Splits a condition that fits neither in a gateway nor in a table.
fn decide_in_parts(tree: &GatewayCond) -> ConditionDecision {
    let (parts, found) = match tree {
        GatewayCond::Any(_) => (flatten_disjunction(tree), true),
        GatewayCond::All(_) => (flatten_disjunction(&negated(tree)), false),
        _ => return ConditionDecision::Gateway(cond_text(tree).0),
    };
    if parts.len() < 2 {
        return ConditionDecision::Gateway(cond_text(tree).0);
    }
    ConditionDecision::Disjunction(CondDisjunction {
        conds: parts.iter().map(|part| cond_text(part).0).collect(),
        found,
    })
}

/// Returns whether code only assigns constants and exits. Such code may be duplicated.
fn is_short(code: &[P4Stmt]) -> bool {
    let constant = |text: &str| {
        let value = text.strip_suffix(';').and_then(|text| text.split_once(" = "));
        value.is_some_and(|(_, value)| {
            value == "true"
                || value == "false"
                || value.starts_with(|c: char| c.is_ascii_digit()) && value.bytes().all(|b| b.is_ascii_alphanumeric())
        })
    };
    code.len() <= 4 && code.iter().all(|stmt| matches!(stmt, P4Stmt::Line(text) if text == "exit;" || constant(text)))
}

/// Returns the match of one key in an entry, as P4 text: `_`, a value, or a value and a mask. The
/// tests of `base` (`width` bits) are combined; `truth` says that it is a bool.
fn entry_item(entry: &[BitTest], base: &str, width: u32, truth: bool) -> String {
    let mut value = BigUint::ZERO;
    let mut mask = BigUint::ZERO;
    for test in entry.iter().filter(|t| t.base == base) {
        let bits = if test.equal { test.value.clone() } else { BigUint::ZERO };
        value |= bits << test.lo;
        mask |= &test.mask << test.lo;
    }
    if mask == BigUint::ZERO {
        return "_".into();
    }
    if truth {
        return (value != BigUint::ZERO).to_string();
    }
    if mask == all_ones(width) {
        expr::number_text(&value)
    } else {
        format!("{} &&& {}", expr::number_text(&value), expr::number_text(&mask))
    }
}
