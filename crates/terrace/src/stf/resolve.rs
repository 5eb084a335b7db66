//! Resolves names and values of a test to the pipeline's objects and bits.
//!
//! A name may be a full control-plane name or the end of it, as in p4c's driver: an equal name is
//! preferred, then one that ends in it after a dot, then one that ends in it. A name that matches
//! several objects is refused.

use super::script::{ActionText, KeyText};
use super::value::{MatchText, Number, ones};
use ir::{
    ActionCall, ActionId, ExternId, ExternKind, KeyMatch, MatchKey, MatchKind, Pipeline, Table, TableId, Type,
    ValueSetId,
};
use num_bigint::BigUint;
use num_traits::Zero;
use thiserror::Error;

/// A name or value of a test cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// No object of that kind has the name.
    #[error("the program has no {kind} `{name}`; it has {}", name_list(.known))]
    Unknown {
        /// Kind of object.
        kind: &'static str,
        /// Name as written.
        name: String,
        /// Names of the existing objects.
        known: Vec<String>,
    },
    /// Several objects have the name.
    #[error("`{name}` is ambiguous: {kind} {} end in it; write the whole name", name_list(.candidates))]
    Ambiguous {
        /// Kind of object.
        kind: &'static str,
        /// Name as written.
        name: String,
        /// Names of the matching objects.
        candidates: Vec<String>,
    },
    /// The value is too wide for its key or parameter.
    #[error("the value of `{name}` does not fit `{ty}`; give a value of at most {width} bits")]
    TooWide {
        /// Name of the key or parameter.
        name: String,
        /// Type of the key or parameter.
        ty: String,
        /// Width in bits.
        width: u32,
    },
    /// The match kind does not support the form of the value.
    #[error("the key `{name}` is matched by {kind}: {help}")]
    WrongForm {
        /// Name of the key.
        name: String,
        /// Match kind of the key.
        kind: &'static str,
        /// Description of a valid value.
        help: &'static str,
    },
    /// An argument is missing, unknown or given twice.
    #[error("action `{action}` takes ({}): {problem}", .params.join(", "))]
    Arguments {
        /// Name of the action.
        action: String,
        /// Parameters of the action.
        params: Vec<String>,
        /// Description of the error.
        problem: String,
    },
    /// The key appears twice.
    #[error("the key `{0}` is given twice; keep one of them")]
    DuplicateKey(String),
}

fn name_list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => return "none".to_owned(),
        n if n > SHOWN => text.push(format!("{} more", n - SHOWN)),
        _ => {}
    }
    text.join(", ")
}

/// Returns the single candidate that `name` matches.
fn pick_candidate<T: Copy>(kind: &'static str, name: &str, candidates: &[(String, T)]) -> Result<T, ResolveError> {
    if let Some((_, found)) = candidates.iter().find(|(candidate, _)| candidate == name) {
        return Ok(*found);
    }
    let dotted = format!(".{name}");
    for end in [dotted.as_str(), name] {
        let found: Vec<&(String, T)> = candidates.iter().filter(|(candidate, _)| candidate.ends_with(end)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok(one.1),
            several => {
                let candidates = several.iter().map(|(name, _)| name.clone()).collect();
                return Err(ResolveError::Ambiguous { kind, name: name.to_owned(), candidates });
            }
        }
    }
    let known = candidates.iter().map(|(name, _)| name.clone()).collect();
    Err(ResolveError::Unknown { kind, name: name.to_owned(), known })
}

/// Returns the table of that name.
pub fn table(pipeline: &Pipeline, name: &str) -> Result<TableId, ResolveError> {
    let tables: Vec<_> = pipeline.tables.iter().map(|(id, table)| (table.preamble.name.clone(), id)).collect();
    pick_candidate("table", name, &tables)
}

/// Returns the extern object of that name among those that satisfy `wanted`. `kind` names the kind
/// of object in errors.
pub fn object(
    pipeline: &Pipeline,
    kind: &'static str,
    name: &str,
    wanted: impl Fn(&ExternKind) -> bool,
) -> Result<ExternId, ResolveError> {
    let objects: Vec<_> = pipeline.externs.iter().filter(|(_, object)| wanted(&object.kind)).collect();
    let named: Vec<_> = objects.iter().map(|(id, object)| (object.preamble.name.clone(), *id)).collect();
    pick_candidate(kind, name, &named)
}

/// Returns the parser value set of that name.
pub fn value_set(pipeline: &Pipeline, name: &str) -> Result<ValueSetId, ResolveError> {
    let sets: Vec<_> = pipeline.value_sets.iter().map(|(id, set)| (set.preamble.name.clone(), id)).collect();
    pick_candidate("value set", name, &sets)
}

/// Returns the action with its arguments in the order of its parameters. `allowed` are the allowed
/// actions.
pub fn action_call(
    pipeline: &Pipeline,
    allowed: impl Iterator<Item = ActionId>,
    text: &ActionText,
) -> Result<ActionCall, ResolveError> {
    let candidates: Vec<_> =
        allowed.filter_map(|id| Some((pipeline.actions.get(id)?.preamble.name.clone(), id))).collect();
    let id = pick_candidate("action", &text.name, &candidates)?;
    let action = &pipeline.actions[id];
    let refuse = |problem: String| ResolveError::Arguments {
        action: action.preamble.name.clone(),
        params: action.params.iter().map(|param| param.name.clone()).collect(),
        problem,
    };
    let mut args: Vec<Option<BigUint>> = vec![None; action.params.len()];
    for (position, (name, value)) in text.args.iter().enumerate() {
        let index = match name {
            Some(name) => action.params.iter().position(|param| param.name == *name),
            None => (position < action.params.len()).then_some(position),
        };
        let param_text = name.clone().unwrap_or_else(|| format!("number {}", position + 1));
        let Some(index) = index else { return Err(refuse(format!("there is no parameter {param_text}; remove it"))) };
        if args[index].is_some() {
            return Err(refuse(format!("{param_text} is given twice; keep one")));
        }
        let param = &action.params[index];
        args[index] = Some(scalar(&param.name, param.ty, value)?);
    }
    let mut complete = Vec::with_capacity(args.len());
    for (arg, param) in args.into_iter().zip(&action.params) {
        complete.push(arg.ok_or_else(|| refuse(format!("`{}` is missing; add it", param.name)))?);
    }
    Ok(ActionCall { action: id, args: complete })
}

/// Returns the action of an entry of the table.
pub fn table_action(pipeline: &Pipeline, table: TableId, text: &ActionText) -> Result<ActionCall, ResolveError> {
    action_call(pipeline, pipeline.tables[table].actions.iter().map(|action| action.action), text)
}

/// Converts a value to the bits of a type. For `int<W>`, a positive number with the top bit set is
/// taken as a bit pattern, as on bmv2's command line.
pub fn scalar(name: &str, ty: Type, value: &Number) -> Result<BigUint, ResolveError> {
    let width = ty.width();
    let too_wide = || ResolveError::TooWide { name: name.to_owned(), ty: format!("{ty:?}"), width };
    value.bits(width).ok_or_else(too_wide)
}

/// Returns one match for each match key of the table. A missing key matches 0 if it is exact, else
/// anything.
pub fn entry_keys(table: &Table, texts: &[KeyText]) -> Result<Vec<KeyMatch>, ResolveError> {
    let keys: Vec<&MatchKey> = table.match_keys().map(|(_, key)| key).collect();
    let mut matches: Vec<Option<KeyMatch>> = vec![None; keys.len()];
    for text in texts {
        let index = key_index(&keys, &text.name)?;
        if matches[index].is_some() {
            return Err(ResolveError::DuplicateKey(keys[index].name.clone()));
        }
        matches[index] = Some(key_match(keys[index], &text.value)?);
    }
    Ok(matches.into_iter().zip(&keys).map(|(given, key)| given.unwrap_or_else(|| absent_key_match(key))).collect())
}

/// Returns one match for each key of a value set. Keys without a name are given in order.
pub fn set_keys(keys: &[MatchKey], texts: &[(Option<String>, MatchText)]) -> Result<Vec<KeyMatch>, ResolveError> {
    let all: Vec<&MatchKey> = keys.iter().collect();
    let mut matches: Vec<Option<KeyMatch>> = vec![None; keys.len()];
    for (position, (name, value)) in texts.iter().enumerate() {
        let index = match name {
            Some(name) => key_index(&all, name)?,
            None if position < keys.len() => position,
            None => {
                let known = keys.iter().map(|key| key.name.clone()).collect();
                return Err(ResolveError::Unknown { kind: "key", name: format!("number {}", position + 1), known });
            }
        };
        matches[index] = Some(key_match(all[index], value)?);
    }
    Ok(matches.into_iter().zip(keys).map(|(given, key)| given.unwrap_or_else(|| absent_key_match(key))).collect())
}

/// Normalises a key name. Names differ in how they write validity (`h.isValid()`, `h.$valid$`) and
/// stack elements (`h[0]`, `h$0`).
fn normalize_key_name(name: &str) -> String {
    let mut text = name.replace("isValid()", "$valid$");
    if let Some(at) = text.find('$')
        && text[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let digits = text[at + 1..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| at + 1 + end);
        text = format!("{}[{}]{}", &text[..at], &text[at + 1..digits], &text[digits..]);
    }
    text
}

/// Returns the index of the key element with this name. p4c's tests spell names differently from
/// the program, for example a validity as `h.valid`; an exact match of a spelling comes first, then
/// one by the end of a name.
fn key_index(keys: &[&MatchKey], name: &str) -> Result<usize, ResolveError> {
    let candidates: Vec<(String, usize)> =
        keys.iter().enumerate().map(|(index, key)| (normalize_key_name(&key.name), index)).collect();
    let name = normalize_key_name(name);
    let valid = name.strip_suffix(".valid").or_else(|| name.strip_suffix(".$valid"));
    let mut spellings = vec![name.clone(), format!("{name}$"), format!("{name}.$valid$")];
    spellings.extend(valid.map(|header| format!("{header}.$valid$")));
    for spelling in &spellings {
        if let Some((_, index)) = candidates.iter().find(|(candidate, _)| candidate == spelling) {
            return Ok(*index);
        }
    }
    let mut ambiguous = None;
    for spelling in &spellings {
        match pick_candidate("key", spelling, &candidates) {
            Ok(index) => return Ok(index),
            Err(error @ ResolveError::Ambiguous { .. }) => ambiguous = ambiguous.or(Some(error)),
            Err(_) => {}
        }
    }
    let known = candidates.into_iter().map(|(name, _)| name).collect();
    Err(ambiguous.unwrap_or(ResolveError::Unknown { kind: "key", name, known }))
}

fn absent_key_match(key: &MatchKey) -> KeyMatch {
    key.kind.key_match(key.ty, None).unwrap_or(KeyMatch::Exact(BigUint::zero()))
}

/// Returns the match of a key element for the text of a test, which must fit the match kind. A
/// ternary number may have wildcard digits, an LPM number wildcard digits at the end.
fn key_match(key: &MatchKey, text: &MatchText) -> Result<KeyMatch, ResolveError> {
    let width = key.ty.width();
    let bits = |value: &Number| scalar(&key.name, key.ty, value);
    let wrong_form = |kind, help| ResolveError::WrongForm { name: key.name.clone(), kind, help };
    match (key.kind, text) {
        (MatchKind::Exact | MatchKind::Selector, MatchText::Number(value)) if !value.has_wildcards() => {
            Ok(KeyMatch::Exact(bits(value)?))
        }
        (MatchKind::Exact | MatchKind::Selector, _) => Err(wrong_form("exact", "give one number without `*`")),
        (_, MatchText::Any) => Ok(absent_key_match(key)),
        (MatchKind::Ternary, MatchText::Number(value)) => {
            ternary_match(bits(value)?, &ones(width) ^ &(&value.wild & ones(width)))
        }
        (MatchKind::Ternary, MatchText::Mask(value, mask)) if mask.bits() <= u64::from(width) => {
            ternary_match(bits(value)?, mask.clone())
        }
        (MatchKind::Ternary, MatchText::Prefix(value, len)) if *len <= width => {
            ternary_match(bits(value)?, prefix_mask(width, *len))
        }
        (MatchKind::Ternary, _) => {
            Err(wrong_form("ternary", "give a number, with `*` for digits that don't care, or value&&&mask"))
        }
        (MatchKind::Lpm, MatchText::Number(value)) => match wild_suffix(value) {
            Some(wild_bits) if wild_bits <= width => Ok(prefix_match(bits(value)?, width, width - wild_bits)),
            _ => Err(wrong_form("lpm", "`*` may stand only at the end")),
        },
        (MatchKind::Lpm, MatchText::Prefix(value, len)) if *len <= width => Ok(prefix_match(bits(value)?, width, *len)),
        (MatchKind::Lpm, _) => Err(wrong_form("lpm", "give value/length, with a length of at most the key's width")),
        (MatchKind::Range, MatchText::Range(low, high)) => Ok(KeyMatch::Range { lo: bits(low)?, hi: bits(high)? }),
        (MatchKind::Range, MatchText::Number(value)) if !value.has_wildcards() => {
            Ok(KeyMatch::Range { lo: bits(value)?, hi: bits(value)? })
        }
        (MatchKind::Range, _) => Err(wrong_form("range", "give low..high")),
        (kind, MatchText::Number(value)) if !value.has_wildcards() => {
            kind.key_match(key.ty, Some(bits(value)?)).ok_or_else(|| wrong_form(kind.keyword(), "give something else"))
        }
        (kind, _) => Err(wrong_form(kind.keyword(), "give one number, or `*` for anything")),
    }
}

fn ternary_match(value: BigUint, mask: BigUint) -> Result<KeyMatch, ResolveError> {
    Ok(KeyMatch::Ternary { value: value & &mask, mask })
}

fn prefix_match(value: BigUint, width: u32, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: value & prefix_mask(width, prefix_len), prefix_len }
}

fn prefix_mask(width: u32, prefix_len: u32) -> BigUint {
    ones(width) ^ ones(width - prefix_len.min(width))
}

/// Returns the number of don't-care bits if they are exactly the lowest bits.
fn wild_suffix(value: &Number) -> Option<u32> {
    let wild = u32::try_from(value.wild.bits()).ok()?;
    (value.wild == ones(wild)).then_some(wild)
}
