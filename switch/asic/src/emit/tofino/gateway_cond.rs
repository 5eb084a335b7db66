//! [`GatewayCond`]: conditions in negation normal form, and the tests of bits that they consist of.

use super::prefixes::all_ones;
use crate::emit::expr;
use num_bigint::BigUint;

/// Maximum number of entries of a table that evaluates a condition.
pub(super) const MAX_ENTRIES: usize = 64;

/// Condition in negation normal form.
#[derive(Clone, Debug)]
pub(super) enum GatewayCond {
    Known(bool),
    Test(BitTest),
    /// Other condition as text, with the number of bits that it reads.
    Raw(String, u32),
    All(Vec<GatewayCond>),
    Any(Vec<GatewayCond>),
}

/// Comparison of bits with a constant, for equality or inequality.
#[derive(Clone, Debug)]
pub(super) struct BitTest {
    pub(super) base: String,
    pub(super) width: u32,
    pub(super) hi: u32,
    pub(super) lo: u32,
    pub(super) value: BigUint,
    /// Mask within `hi..=lo`; usually all ones.
    pub(super) mask: BigUint,
    pub(super) equal: bool,
    /// Whether the base is a bool.
    pub(super) truth: bool,
}

/// Negates a condition.
pub(super) fn negated(cond: &GatewayCond) -> GatewayCond {
    match cond {
        GatewayCond::Known(known) => GatewayCond::Known(!known),
        GatewayCond::Raw(text, bits) => GatewayCond::Raw(crate::emit::text::negated(text), *bits),
        GatewayCond::Test(test) => GatewayCond::Test(BitTest { equal: !test.equal, ..test.clone() }),
        GatewayCond::All(all) => GatewayCond::Any(all.iter().map(negated).collect()),
        GatewayCond::Any(all) => GatewayCond::All(all.iter().map(negated).collect()),
    }
}

/// Flattens nested disjunctions.
pub(super) fn flatten_disjunction(cond: &GatewayCond) -> Vec<GatewayCond> {
    match cond {
        GatewayCond::Any(parts) => parts.iter().flat_map(flatten_disjunction).collect(),
        other => vec![other.clone()],
    }
}

/// Returns whether a condition compares two fields and has further tests. A gateway cannot do both.
pub(super) fn mixes_field_comparison(cond: &GatewayCond) -> bool {
    fn count_leaves(cond: &GatewayCond) -> (usize, usize) {
        match cond {
            GatewayCond::Known(_) => (0, 0),
            GatewayCond::Raw(..) => (1, 1),
            GatewayCond::Test(_) => (1, 0),
            GatewayCond::All(all) | GatewayCond::Any(all) => {
                all.iter().map(count_leaves).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
            }
        }
    }
    let (all, raw) = count_leaves(cond);
    raw > 0 && all > 1
}

/// Returns the number of distinct bits that a condition reads.
pub(super) fn count_bits(cond: &GatewayCond) -> u32 {
    fn collect_bits(cond: &GatewayCond, seen: &mut Vec<(String, u32, u32)>, raw: &mut u32) {
        match cond {
            GatewayCond::Known(_) => {}
            GatewayCond::Raw(_, bits) => *raw += bits,
            GatewayCond::Test(t) => {
                let key = (t.base.clone(), t.hi, t.lo);
                if !seen.contains(&key) {
                    seen.push(key);
                }
            }
            GatewayCond::All(all) | GatewayCond::Any(all) => all.iter().for_each(|c| collect_bits(c, seen, raw)),
        }
    }
    let (mut seen, mut raw) = (Vec::new(), 0);
    collect_bits(cond, &mut seen, &mut raw);
    raw + seen.iter().map(|(_, hi, lo)| hi - lo + 1).sum::<u32>()
}

pub(super) fn widest_operand_bits(cond: &GatewayCond) -> u32 {
    match cond {
        GatewayCond::Known(_) => 0,
        GatewayCond::Raw(_, bits) => bits / 2,
        GatewayCond::Test(t) => t.hi - t.lo + 1,
        GatewayCond::All(all) | GatewayCond::Any(all) => all.iter().map(widest_operand_bits).max().unwrap_or(0),
    }
}

/// Returns the text, and whether it needs parentheses as an operand.
pub(super) fn cond_text(cond: &GatewayCond) -> (String, bool) {
    let join = |parts_of: &[GatewayCond], sign: &str, empty: &str| {
        let part = |c: &GatewayCond| match (cond_text(c), c) {
            ((t, true), GatewayCond::All(_) | GatewayCond::Any(_)) => format!("({t})"),
            ((t, _), _) => t,
        };
        let parts: Vec<String> = parts_of.iter().map(part).collect();
        match parts.len() {
            0 => (empty.to_owned(), false),
            n => (parts.join(sign), n > 1),
        }
    };
    match cond {
        GatewayCond::Known(known) => (known.to_string(), false),
        GatewayCond::Raw(text, _) => (text.clone(), true),
        GatewayCond::Test(t) if t.truth => (if t.equal { t.base.clone() } else { format!("!{}", t.base) }, false),
        GatewayCond::Test(t) => {
            let is_whole = t.hi + 1 == t.width && t.lo == 0;
            let base = if is_whole { t.base.clone() } else { format!("{}[{}:{}]", t.base, t.hi, t.lo) };
            let bit_count = t.hi - t.lo + 1;
            let base = match t.mask == all_ones(bit_count) {
                true => base,
                false => format!("({base} & {})", expr::number_text(&t.mask)),
            };
            (format!("{base} {} {}", if t.equal { "==" } else { "!=" }, expr::number_text(&t.value)), true)
        }
        GatewayCond::All(parts_of) => join(parts_of, " && ", "true"),
        GatewayCond::Any(parts_of) => join(parts_of, " || ", "false"),
    }
}

/// Returns the condition as entries of a ternary table; the condition holds if one of them matches.
/// `None` if there is no such set of entries.
pub(super) fn ternary_entries(cond: &GatewayCond) -> Option<Vec<Vec<BitTest>>> {
    Some(match cond {
        GatewayCond::Known(true) => vec![Vec::new()],
        GatewayCond::Known(false) => Vec::new(),
        GatewayCond::Raw(..) => return None,
        // An inequality of more than one bit has no single entry.
        GatewayCond::Test(t) if !t.equal && t.hi > t.lo => return None,
        GatewayCond::Test(t) if !t.equal && !t.truth => {
            let value = BigUint::from(u8::from(t.value == BigUint::ZERO));
            vec![vec![BitTest { value, equal: true, ..t.clone() }]]
        }
        GatewayCond::Test(t) => vec![vec![t.clone()]],
        GatewayCond::Any(parts) => {
            let mut rows = Vec::new();
            for part in parts {
                rows.extend(ternary_entries(part)?);
            }
            (rows.len() <= MAX_ENTRIES).then_some(rows)?
        }
        GatewayCond::All(parts) => {
            let mut rows: Vec<Vec<BitTest>> = vec![Vec::new()];
            for part in parts {
                let part_rows = ternary_entries(part)?;
                let product =
                    rows.iter().flat_map(|r| part_rows.iter().map(move |m| [r.as_slice(), m.as_slice()].concat()));
                rows = product.collect();
                (rows.len() <= MAX_ENTRIES).then_some(())?;
            }
            rows
        }
    })
}
