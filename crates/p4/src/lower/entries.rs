//! Lowers entries that the program declares, and their priorities.
//! See the specification, section "Entry priorities".

use super::const_value::ConstValue;
use super::lowering::{LowerResult, Lowering};
use super::names;
use crate::hir::{self, Expr, KeysetItem};
use crate::span::Span;
use ir::{ActionCall, ConstEntry, KeyMatch, MatchKind, Table, Type};
use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive, Zero};

impl Lowering<'_> {
    /// Lowers the entries that the program declares for a table, in the order of the source.
    /// Entries of a table without priorities get priority 0.
    pub(super) fn lower_entries(&mut self, decl: &hir::Table, table: &Table) -> LowerResult<Vec<ConstEntry>> {
        let priorities = if table.has_priority() { self.entry_priorities(decl)? } else { vec![0; decl.entries.len()] };
        let kinds: Vec<(MatchKind, Type)> = table.match_keys().map(|(_, k)| (k.kind, k.ty)).collect();
        let mut entries = Vec::with_capacity(decl.entries.len());
        for (entry, priority) in decl.entries.iter().zip(priorities) {
            let Some(action) = table.actions.get(entry.action).map(|a| a.action) else {
                return self.error("unknown-action", entry.span, "the table does not have this action");
            };
            let args = self.action_data(action, &entry.args, entry.span)?;
            let loc = self.source_loc(entry.span);
            entries.push(ConstEntry {
                keys: self.key_matches(&entry.keyset, &kinds, entry.span)?,
                priority,
                action: ActionCall { action, args },
                is_const: entry.is_const || decl.const_entries,
                loc,
            });
        }
        Ok(entries)
    }

    fn key_matches(
        &mut self,
        keyset: &[KeysetItem],
        kinds: &[(MatchKind, Type)],
        span: Span,
    ) -> LowerResult<Vec<KeyMatch>> {
        // A single `_` or `default` matches all keys.
        let all = matches!(keyset, [KeysetItem::Any]);
        if !all && keyset.len() != kinds.len() {
            return self.error(
                "key-count",
                span,
                format!("this entry has {} keys, the table {}", keyset.len(), kinds.len()),
            );
        }
        let item = |n: usize| if all { &KeysetItem::Any } else { &keyset[n] };
        kinds.iter().enumerate().map(|(n, (kind, ty))| self.key_match(item(n), *kind, *ty, span)).collect()
    }

    /// Returns the match of one key from an item of a key set, for a key with the match kind `kind`
    /// and the type `ty`. An item that the match kind cannot express is an error.
    fn key_match(&mut self, item: &KeysetItem, kind: MatchKind, ty: Type, span: Span) -> LowerResult<KeyMatch> {
        let all_ones = (BigUint::one() << ty.width()) - 1u8;
        let simple = match item {
            KeysetItem::Any => kind.key_match(ty, None),
            KeysetItem::Value(value) => kind.key_match(ty, Some(self.eval_bits(value, ty)?)),
            KeysetItem::Mask(..) | KeysetItem::Range(..) | KeysetItem::ValueSet(_) => None,
        };
        if let Some(simple) = simple {
            return Ok(simple);
        }
        match (kind, item) {
            (MatchKind::Ternary, KeysetItem::Mask(value_expr, mask_expr)) => {
                let (value, mask) = self.masked_value(value_expr, mask_expr, ty)?;
                Ok(KeyMatch::Ternary { value, mask })
            }
            (MatchKind::Lpm, KeysetItem::Mask(value_expr, mask_expr)) => {
                let (value, mask) = self.masked_value(value_expr, mask_expr, ty)?;
                match prefix_length(&mask, ty.width()) {
                    Some(prefix_len) => Ok(KeyMatch::Lpm { value, prefix_len }),
                    None => self.error(
                        "not-a-prefix",
                        mask_expr.span,
                        "the mask of an lpm key must be a prefix: ones, then zeros",
                    ),
                }
            }
            (MatchKind::Range, KeysetItem::Range(lo, hi)) => {
                let (low, high) = (self.eval_bits(lo, ty)?, self.eval_bits(hi, ty)?);
                if ir::eval::to_number(ty, &low) > ir::eval::to_number(ty, &high) {
                    return self.error("empty-range", lo.span.to(hi.span), "this range is empty: its ends are swapped");
                }
                Ok(KeyMatch::Range { lo: low, hi: high })
            }
            (MatchKind::Exact | MatchKind::Optional, KeysetItem::Mask(value_expr, mask_expr)) => {
                let (value, mask) = self.masked_value(value_expr, mask_expr, ty)?;
                match kind {
                    MatchKind::Exact if mask == all_ones => Ok(KeyMatch::Exact(value)),
                    MatchKind::Optional if mask == all_ones => Ok(KeyMatch::Optional(Some(value))),
                    MatchKind::Optional if mask.is_zero() => Ok(KeyMatch::Optional(None)),
                    _ => self.error("key-form", mask_expr.span, "a key of this match kind can't have a mask"),
                }
            }
            _ => {
                self.error("key-form", span, format!("an entry can't have a key of this form for match kind {kind:?}"))
            }
        }
    }

    fn masked_value(&mut self, value: &Expr, mask: &Expr, ty: Type) -> LowerResult<(BigUint, BigUint)> {
        let mask = self.eval_bits(mask, ty)?;
        Ok((self.eval_bits(value, ty)? & &mask, mask))
    }

    /// Returns the priorities of the entries as in P4Runtime: the largest wins. The properties
    /// `largest_priority_wins` and `priority_delta` give the meaning of written priorities, and the
    /// step for entries without one.
    fn entry_priorities(&mut self, decl: &hir::Table) -> LowerResult<Vec<i32>> {
        let count = decl.entries.len() as i64;
        if decl.const_entries {
            return Ok(const_priorities(&decl.entries));
        }
        let largest_wins = match self.known_property(decl, "largest_priority_wins") {
            Some(ConstValue::Bool(b)) => b,
            _ => true,
        };
        let delta = match self.known_property(decl, "priority_delta") {
            Some(ConstValue::Int(index)) => index.to_i64().unwrap_or(1),
            _ => 1,
        };
        let mut numbers: Vec<i64> = Vec::new();
        let has_written = decl.entries.iter().any(|e| e.priority.is_some());
        for (index, entry) in decl.entries.iter().enumerate() {
            let number = match &entry.priority {
                Some(p) => self.checked_priority(p, entry.span)?,
                None if has_written => match numbers.last() {
                    Some(last) => last + if largest_wins { -delta } else { delta },
                    None => {
                        let message = "the first entry must have a priority if others have one";
                        return self.error("missing-priority", entry.span, message);
                    }
                },
                None if largest_wins => 1 + (count - 1 - index as i64) * delta,
                None => 1 + index as i64 * delta,
            };
            numbers.push(number);
        }
        let (least, greatest) =
            (numbers.iter().min().copied().unwrap_or(0), numbers.iter().max().copied().unwrap_or(0));
        let mut priorities = Vec::with_capacity(numbers.len());
        for (number, entry) in numbers.into_iter().zip(&decl.entries) {
            // If the smallest wins in the source, mirror the numbers within their range.
            let runtime_priority = if largest_wins { number } else { least + greatest - number };
            match i32::try_from(runtime_priority) {
                Ok(priority) if number >= 0 => priorities.push(priority),
                _ => return self.error("priority-range", entry.span, "the priority of this entry is out of range"),
            }
        }
        Ok(priorities)
    }

    fn checked_priority(&mut self, number: &BigInt, span: Span) -> LowerResult<i64> {
        match number.to_i32() {
            Some(n) => Ok(n.into()),
            None => self.error("priority-range", span, "the priority of this entry is out of range"),
        }
    }

    /// Returns the known value of a property.
    fn known_property(&mut self, decl: &hir::Table, name: &str) -> Option<ConstValue> {
        let value = decl.properties.iter().find(|p| *p.name == *name)?.value.as_ref()?;
        self.try_eval_const(value)
    }
}

/// Returns the priorities of `const entries`, so that the first matching entry wins. `@priority(n)`
/// changes the position of an entry to `n`. The specification does not define this; p4c's back-end
/// for simple_switch does it.
fn const_priorities(entries: &[hir::Entry]) -> Vec<i32> {
    let place = |(n, entry): (usize, &hir::Entry)| {
        let given = names::annotation_number(&entry.annotations, "priority").and_then(|n| i32::try_from(n).ok());
        given.unwrap_or_else(|| i32::try_from(n + 1).unwrap_or(i32::MAX))
    };
    let places: Vec<i32> = entries.iter().enumerate().map(place).collect();
    let last = places.iter().max().copied().unwrap_or(0);
    places.iter().map(|place| (last - place).saturating_add(1)).collect()
}

/// Returns the number of leading ones of a prefix mask; `None` for other masks.
fn prefix_length(mask: &BigUint, width: u32) -> Option<u32> {
    let zeros = mask.trailing_zeros().map_or(width, |n| n as u32).min(width);
    let expected = ((BigUint::one() << (width - zeros)) - 1u8) << zeros;
    (*mask == expected).then_some(width - zeros)
}
