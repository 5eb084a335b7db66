//! From names and values as written to the pipeline's objects and bits.
//!
//! A name may be the whole control-plane name or the end of it, as in p4c's driver: first equality, then the end behind a dot, then any end.
//! Where more than one object has it, the test is refused rather than one of them taken.

use super::script::{ActionText, KeyText};
use super::value::{MatchText, Number, ones};
use ir::{
    ActionCall, ActionId, ExternId, ExternKind, Key, KeyMatch, MatchKind, Pipeline, Table, TableId, Type, ValueSetId,
};
use num_bigint::BigUint;
use num_traits::Zero;
use thiserror::Error;

/// Why something that a test names cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// No object of that kind has the name.
    #[error("the program has no {kind} `{name}`; it has {}", list(.known))]
    Unknown {
        /// Kind of object.
        kind: &'static str,
        /// The name as written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Several objects have the name.
    #[error("`{name}` is ambiguous: {kind} {} end in it; write the whole name", list(.candidates))]
    Ambiguous {
        /// Kind of object.
        kind: &'static str,
        /// The name as written.
        name: String,
        /// What it could be.
        candidates: Vec<String>,
    },
    /// A value that its place cannot hold.
    #[error("the value of `{name}` does not fit `{ty}`; give a value of at most {width} bits")]
    TooWide {
        /// Key or parameter.
        name: String,
        /// Its type.
        ty: String,
        /// Its width in bits.
        width: u32,
    },
    /// A form of value that the match kind has not.
    #[error("the key `{name}` is matched by {kind}: {mend}")]
    WrongForm {
        /// The key.
        name: String,
        /// Its match kind.
        kind: &'static str,
        /// What to write.
        mend: &'static str,
    },
    /// An argument is missing, unknown or given twice.
    #[error("action `{action}` takes ({}): {problem}", .params.join(", "))]
    Arguments {
        /// The action.
        action: String,
        /// Its parameters.
        params: Vec<String>,
        /// What is wrong.
        problem: String,
    },
    /// The key appears twice.
    #[error("the key `{0}` is given twice; keep one of them")]
    DuplicateKey(String),
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => return "none".to_owned(),
        n if n > SHOWN => text.push(format!("{} more", n - SHOWN)),
        _ => {}
    }
    text.join(", ")
}

/// Finds the one candidate that `name` stands for.
fn pick<T: Copy>(kind: &'static str, name: &str, candidates: &[(String, T)]) -> Result<T, ResolveError> {
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

/// The table of that name.
pub fn table(pipeline: &Pipeline, name: &str) -> Result<TableId, ResolveError> {
    let tables: Vec<_> = pipeline.tables.iter().map(|(id, table)| (table.preamble.name.clone(), id)).collect();
    pick("table", name, &tables)
}

/// The extern object of that name among those of which `wanted` is true; `kind` names what is looked for.
pub fn object(
    pipeline: &Pipeline,
    kind: &'static str,
    name: &str,
    wanted: impl Fn(&ExternKind) -> bool,
) -> Result<ExternId, ResolveError> {
    let objects: Vec<_> = pipeline.externs.iter().filter(|(_, object)| wanted(&object.kind)).collect();
    let named: Vec<_> = objects.iter().map(|(id, object)| (object.preamble.name.clone(), *id)).collect();
    pick(kind, name, &named)
}

/// The parser value set of that name.
pub fn value_set(pipeline: &Pipeline, name: &str) -> Result<ValueSetId, ResolveError> {
    let sets: Vec<_> = pipeline.value_sets.iter().map(|(id, set)| (set.preamble.name.clone(), id)).collect();
    pick("value set", name, &sets)
}

/// The action with its arguments in the order of its parameters. `among` are the actions it may be.
pub fn action_call(
    pipeline: &Pipeline,
    among: impl Iterator<Item = ActionId>,
    text: &ActionText,
) -> Result<ActionCall, ResolveError> {
    let named: Vec<_> = among.filter_map(|id| Some((pipeline.actions.get(id)?.preamble.name.clone(), id))).collect();
    let id = pick("action", &text.name, &named)?;
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
        let shown = name.clone().unwrap_or_else(|| format!("number {}", position + 1));
        let Some(index) = index else { return Err(refuse(format!("there is no parameter {shown}; remove it"))) };
        if args[index].is_some() {
            return Err(refuse(format!("{shown} is given twice; keep one")));
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

/// The action of an entry of the table.
pub fn table_action(pipeline: &Pipeline, table: TableId, text: &ActionText) -> Result<ActionCall, ResolveError> {
    action_call(pipeline, pipeline.tables[table].actions.iter().map(|action| action.action), text)
}

/// A value as bits of the type. For `int<W>`, a positive number with the top bit set is the bit pattern that it is, as on
/// bmv2's command line.
pub fn scalar(name: &str, ty: Type, value: &Number) -> Result<BigUint, ResolveError> {
    let width = ty.width();
    let too_wide = || ResolveError::TooWide { name: name.to_owned(), ty: format!("{ty:?}"), width };
    value.bits(width).ok_or_else(too_wide)
}

/// One match for each key of the table that is matched. Keys that are not given match 0 if they are exact, else anything.
pub fn entry_keys(table: &Table, texts: &[KeyText]) -> Result<Vec<KeyMatch>, ResolveError> {
    let keys: Vec<&Key> = table.match_keys().map(|(_, key)| key).collect();
    let mut matches: Vec<Option<KeyMatch>> = vec![None; keys.len()];
    for text in texts {
        let index = key_index(&keys, &text.name)?;
        if matches[index].is_some() {
            return Err(ResolveError::DuplicateKey(keys[index].name.clone()));
        }
        matches[index] = Some(key_match(keys[index], &text.value)?);
    }
    Ok(matches.into_iter().zip(&keys).map(|(given, key)| given.unwrap_or_else(|| absent(key))).collect())
}

/// One match for each key of a value set; keys without a name are given in order.
pub fn set_keys(keys: &[Key], texts: &[(Option<String>, MatchText)]) -> Result<Vec<KeyMatch>, ResolveError> {
    let all: Vec<&Key> = keys.iter().collect();
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
    Ok(matches.into_iter().zip(keys).map(|(given, key)| given.unwrap_or_else(|| absent(key))).collect())
}

/// Names of keys differ in how they write validity (`h.isValid()`, `h.$valid$`) and stack elements (`h[0]`, `h$0`).
fn plain(name: &str) -> String {
    let mut text = name.replace("isValid()", "$valid$");
    if let Some(at) = text.find('$')
        && text[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    {
        let digits = text[at + 1..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| at + 1 + end);
        text = format!("{}[{}]{}", &text[..at], &text[at + 1..digits], &text[digits..]);
    }
    text
}

fn key_index(keys: &[&Key], name: &str) -> Result<usize, ResolveError> {
    let named: Vec<(String, usize)> = keys.iter().enumerate().map(|(at, key)| (plain(&key.name), at)).collect();
    let name = plain(name);
    let valid = name.strip_suffix(".valid").or_else(|| name.strip_suffix(".$valid"));
    let mut spellings = vec![name.clone(), format!("{name}$"), format!("{name}.$valid$")];
    spellings.extend(valid.map(|header| format!("{header}.$valid$")));
    for spelling in &spellings {
        if let Some((_, at)) = named.iter().find(|(candidate, _)| candidate == spelling) {
            return Ok(*at);
        }
    }
    let mut ambiguous = None;
    for spelling in &spellings {
        match pick("key", spelling, &named) {
            Ok(at) => return Ok(at),
            Err(error @ ResolveError::Ambiguous { .. }) => ambiguous = ambiguous.or(Some(error)),
            Err(_) => {}
        }
    }
    let known = named.into_iter().map(|(name, _)| name).collect();
    Err(ambiguous.unwrap_or(ResolveError::Unknown { kind: "key", name, known }))
}

fn absent(key: &Key) -> KeyMatch {
    key.kind.key_match(key.ty, None).unwrap_or(KeyMatch::Exact(BigUint::zero()))
}

fn key_match(key: &Key, text: &MatchText) -> Result<KeyMatch, ResolveError> {
    let width = key.ty.width();
    let bits = |value: &Number| scalar(&key.name, key.ty, value);
    let wrong = |kind, mend| ResolveError::WrongForm { name: key.name.clone(), kind, mend };
    match (key.kind, text) {
        (MatchKind::Exact | MatchKind::Selector, MatchText::Number(value)) if !value.has_wildcards() => {
            Ok(KeyMatch::Exact(bits(value)?))
        }
        (MatchKind::Exact | MatchKind::Selector, _) => Err(wrong("exact", "give one number without `*`")),
        (_, MatchText::Any) => Ok(absent(key)),
        (MatchKind::Ternary, MatchText::Number(value)) => {
            ternary(bits(value)?, &ones(width) ^ &(&value.wild & ones(width)))
        }
        (MatchKind::Ternary, MatchText::Mask(value, mask)) if mask.bits() <= u64::from(width) => {
            ternary(bits(value)?, mask.clone())
        }
        (MatchKind::Ternary, MatchText::Prefix(value, len)) if *len <= width => {
            ternary(bits(value)?, prefix_mask(width, *len))
        }
        (MatchKind::Ternary, _) => {
            Err(wrong("ternary", "give a number, with `*` for digits that don't care, or value&&&mask"))
        }
        (MatchKind::Lpm, MatchText::Number(value)) => match wild_suffix(value) {
            Some(wild) if wild <= width => Ok(prefix(bits(value)?, width, width - wild)),
            _ => Err(wrong("lpm", "`*` may stand only at the end")),
        },
        (MatchKind::Lpm, MatchText::Prefix(value, len)) if *len <= width => Ok(prefix(bits(value)?, width, *len)),
        (MatchKind::Lpm, _) => Err(wrong("lpm", "give value/length, with a length of at most the key's width")),
        (MatchKind::Range, MatchText::Range(low, high)) => Ok(KeyMatch::Range { lo: bits(low)?, hi: bits(high)? }),
        (MatchKind::Range, MatchText::Number(value)) if !value.has_wildcards() => {
            Ok(KeyMatch::Range { lo: bits(value)?, hi: bits(value)? })
        }
        (MatchKind::Range, _) => Err(wrong("range", "give low..high")),
        (kind, MatchText::Number(value)) if !value.has_wildcards() => {
            kind.key_match(key.ty, Some(bits(value)?)).ok_or_else(|| wrong(kind.word(), "give something else"))
        }
        (kind, _) => Err(wrong(kind.word(), "give one number, or `*` for anything")),
    }
}

fn ternary(value: BigUint, mask: BigUint) -> Result<KeyMatch, ResolveError> {
    Ok(KeyMatch::Ternary { value: value & &mask, mask })
}

fn prefix(value: BigUint, width: u32, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: value & prefix_mask(width, prefix_len), prefix_len }
}

fn prefix_mask(width: u32, prefix_len: u32) -> BigUint {
    ones(width) ^ ones(width - prefix_len.min(width))
}

/// How many low bits are don't-care, if those are all that are.
fn wild_suffix(value: &Number) -> Option<u32> {
    let wild = u32::try_from(value.wild.bits()).ok()?;
    (value.wild == ones(wild)).then_some(wild)
}
