//! Deferral of parser tests to the control: checksum results, which the chip's parser only records,
//! and comparisons of wide fields.
//!
//! ```text
//! verify(ip.len >= 20, error.Header);   ->  meta.check_len_1 = true;       in the parser's state
//!                                           parser_errors.apply();         first in the control:
//!                                             check_len_1 && len < 20: error.Header
//! ```
//!
//! A parser's `select` takes a row of a small TCAM for each prefix of a range, and its bytes occupy
//! 32 bits of match registers from the state that extracts them (p4c's tofino back-end,
//! `parde/allocate_parser_match_register.cpp`). A length that several states test occupies half of
//! these bits on the whole path. Therefore a state only sets a flag (`meta.check_...`) and
//! continues as if the test had passed. A table at the start of the control finds the first failed
//! test.

use super::legalizer::{DeferredTest, Legalizer};
use super::prefixes::{prefixes_below, prefixes_from, swap_operands};
use ir::*;
use num_bigint::BigUint;

/// Maximum width in bits of a field for a range test in the parser.
const PARSER_BITS: u32 = 8;

impl Legalizer {
    /// Defers a test. The chip's parser records its failure in `flag`.
    pub(super) fn defer_failed_check(&mut self, flag: VarId, error: u32) {
        self.deferred_tests.push(DeferredTest { flag, error, field: None });
    }

    /// Defers a test of the parser to the control if possible. Returns the flag to set;
    /// `Some(None)`: the test always passes.
    pub(super) fn defer_test(&mut self, body: &Body, check: Value, error: u32) -> Option<Option<VarId>> {
        let Inst::Binary(op, a, b) = body.defining_inst(check)?.inst else { return None };
        let (op, value, bound) = match (Self::constant_bits(body, a), Self::constant_bits(body, b)) {
            (None, Some(bound)) => (op, a, bound),
            (Some(bound), None) => (swap_operands(op), b, bound),
            _ => return None,
        };
        let Inst::Load(field) = body.defining_inst(value)?.inst else { return None };
        let Var { ty: Type::Bit(width), kind: VarKind::Field(header, _), ref name, .. } = self.p.vars[field] else {
            return None;
        };
        (width > PARSER_BITS && Self::keeps_extracted_value(body, field, header)).then_some(())?;
        let fails = match op {
            BinaryOp::Ge => prefixes_below(&bound, width),
            BinaryOp::Gt => prefixes_below(&(bound + 1u8), width),
            BinaryOp::Le => prefixes_from(&(bound + 1u8), width),
            BinaryOp::Lt => prefixes_from(&bound, width),
            _ => return None,
        };
        if fails.is_empty() {
            return Some(None);
        }
        let same = |late: &&DeferredTest| late.field.as_ref().is_some_and(|(f, _)| *f == field);
        let number = self.deferred_tests.iter().filter(same).count() + 1;
        let place = name.split_once('.').map_or(name.as_str(), |(_, rest)| rest);
        let name = format!("{}.check_{}_{number}", self.meta, crate::emit::names::to_identifier(place));
        let flag = self.add_var(&name, Type::Bool, VarKind::Meta);
        self.deferred_tests.push(DeferredTest { flag, error, field: Some((field, fails)) });
        Some(Some(flag))
    }

    /// Sorts the tests in the order in which a packet meets them.
    pub(super) fn sort_deferred_tests(&mut self, parser: &Body) {
        let order = reverse_postorder(parser);
        let insts = order.iter().flat_map(|b| &parser.blocks[*b].insts);
        let stores: Vec<VarId> = insts
            .filter_map(|i| match i.inst {
                Inst::Store(var, _) => Some(var),
                _ => None,
            })
            .collect();
        let place = |late: &DeferredTest| stores.iter().position(|var| *var == late.flag);
        self.deferred_tests.retain(|late| place(late).is_some());
        self.deferred_tests.sort_by_key(place);
    }

    /// Prepends to the control: errors that the chip's parser found, the deferred tests and the
    /// deferred copies.
    pub(super) fn prepend_to_control(&mut self, main: &str, body: &mut Body, error: VarId) {
        let Some(entry) = body.entry else { return };
        let chip = self.add_var("ig_prsr_md.parser_err", Type::Bit(16), VarKind::Intrinsic);
        self.p.intrinsics.insert("ig_prsr_md.parser_err".into(), chip);
        let first = match self.deferred_tests.is_empty() {
            true => self.branch_on_too_short(body, entry, chip, error),
            false => self.apply_errors_table(main, body, entry, chip, error),
        };
        body.entry = Some(self.add_deferred_copies(body, first));
    }

    fn packet_too_short_code(&self) -> u32 {
        self.p.errors.iter().position(|e| e == "PacketTooShort").and_then(|n| u32::try_from(n).ok()).unwrap_or(1)
    }

    /// Adds a branch that sets the error if the packet was too short.
    fn branch_on_too_short(&mut self, body: &mut Body, entry: Block, chip: VarId, error: VarId) -> Block {
        let (mut insts, bit) = load_too_short_bit(body, chip);
        let one = body.values.push(Type::Bit(1));
        let is = body.values.push(Type::Bool);
        insts.push(InstData::new(Inst::Const(Const::new(Type::Bit(1), 1u8)), vec![one]));
        insts.push(InstData::new(Inst::Binary(BinaryOp::Eq, bit, one), vec![is]));
        let code = body.values.push(Type::Bit(8));
        let set = vec![
            InstData::new(Inst::Const(Const::new(Type::Bit(8), self.packet_too_short_code())), vec![code]),
            InstData::new(Inst::Store(error, code), Vec::new()),
        ];
        let set = body.push_block(Vec::new(), set, Terminator::Jump(BlockCall::to(entry)));
        body.push_block(
            Vec::new(),
            insts,
            Terminator::Branch { cond: is, then: BlockCall::to(set), els: BlockCall::to(entry) },
        )
    }

    /// Adds the application of the table that finds the first failed test.
    fn apply_errors_table(&mut self, main: &str, body: &mut Body, entry: Block, chip: VarId, error: VarId) -> Block {
        let (mut insts, bit) = load_too_short_bit(body, chip);
        let mut columns: Vec<VarId> = Vec::new();
        for late in &self.deferred_tests {
            for var in std::iter::once(late.flag).chain(late.field.iter().map(|(var, _)| *var)) {
                if !columns.contains(&var) {
                    columns.push(var);
                }
            }
        }
        let mut keys = vec![bit];
        for var in &columns {
            let key = body.values.push(self.p.vars[*var].ty);
            insts.push(InstData::new(Inst::Load(*var), vec![key]));
            keys.push(key);
        }
        let (table, set, keep) = self.errors_table(main, &columns);
        let (hit, code) = (body.values.push(Type::Bool), body.values.push(Type::Bit(8)));
        let store = vec![InstData::new(Inst::Store(error, code), Vec::new())];
        let set_to = body.push_block(vec![hit, code], store, Terminator::Jump(BlockCall::to(entry)));
        let hit = body.values.push(Type::Bool);
        let keep_to = body.push_block(vec![hit], Vec::new(), Terminator::Jump(BlockCall::to(entry)));
        let arms = vec![ActionArm { action: set, block: set_to }, ActionArm { action: keep, block: keep_to }];
        body.push_block(Vec::new(), insts, Terminator::Apply { table, keys, arms })
    }

    /// Adds the table. Returns it with the action that sets an error and the one that keeps the
    /// parser's error.
    fn errors_table(&mut self, main: &str, columns: &[VarId]) -> (TableId, ActionId, ActionId) {
        let preamble = |name: &str| Preamble { name: format!("{main}.{name}"), hidden: true, ..Preamble::default() };
        let loc = SourceLoc::default();
        let params = vec![Param::new("number", Type::Bit(8))];
        let set = Action { preamble: preamble("set_parser_error"), params, loc };
        let set = self.p.actions.push(set);
        let keep = Action { preamble: preamble("keep_parser_error"), params: Vec::new(), loc };
        let keep = self.p.actions.push(keep);
        let key = |name: &str, ty| MatchKey::new(name, ty, MatchKind::Ternary);
        let mut keys = vec![key("too_short", Type::Bit(1))];
        keys.extend(columns.iter().map(|var| key(&self.p.vars[*var].name, self.p.vars[*var].ty)));
        let (zero, one) = (BigUint::ZERO, BigUint::from(1u8));
        let any = || KeyMatch::Ternary { value: zero.clone(), mask: zero.clone() };
        let yes = || KeyMatch::Ternary { value: one.clone(), mask: one.clone() };
        let column = |var: VarId| columns.iter().position(|v| *v == var).map_or(0, |n| n + 1);
        let mut rows: Vec<(Vec<KeyMatch>, u32)> = Vec::new();
        for late in &self.deferred_tests {
            let mut row: Vec<KeyMatch> = keys.iter().map(|_| any()).collect();
            row[column(late.flag)] = yes();
            match &late.field {
                None => rows.push((row, late.error)),
                Some((var, fails)) => rows.extend(fails.iter().map(|(value, mask)| {
                    let mut row = row.clone();
                    row[column(*var)] = KeyMatch::Ternary { value: value.clone(), mask: mask.clone() };
                    (row, late.error)
                })),
            }
        }
        // Tests before the end of the packet take precedence.
        let mut row: Vec<KeyMatch> = keys.iter().map(|_| any()).collect();
        row[0] = yes();
        rows.push((row, self.packet_too_short_code()));
        let count = rows.len();
        let entry = |(n, (keys, error)): (usize, (Vec<KeyMatch>, u32))| ConstEntry {
            keys,
            priority: i32::try_from(count - n).unwrap_or(i32::MAX),
            action: ActionCall { action: set, args: vec![error.into()] },
            is_const: true,
            loc,
        };
        let entries: Vec<ConstEntry> = rows.into_iter().enumerate().map(entry).collect();
        let actions = vec![ActionRef::new(set), ActionRef { default_only: true, ..ActionRef::new(keep) }];
        let default = ActionCall { action: keep, args: Vec::new() };
        let table = Table {
            const_default: true,
            size: Some(count as u64),
            entries,
            const_entries: true,
            ..Table::new(preamble("parser_errors"), keys, actions, default)
        };
        (self.p.tables.push(table), set, keep)
    }
}

/// Returns the instructions that read the chip's "packet too short" bit.
fn load_too_short_bit(body: &mut Body, chip: VarId) -> (Vec<InstData>, Value) {
    let value = body.values.push(Type::Bit(16));
    let bit = body.values.push(Type::Bit(1));
    (
        vec![
            InstData::new(Inst::Load(chip), vec![value]),
            InstData::new(Inst::Slice { value, hi: 1, lo: 1 }, vec![bit]),
        ],
        bit,
    )
}
