//! Entries as text, one per line:
//!
//! ```text
//! ingress.routes: vni=100, dst=10.1.0.0/16 -> to_nc(addr=192.0.2.1, port=3) priority=10 timeout=9s
//! ```
//!
//! Values: decimal, `0x...`, `0b...`, dotted IPv4, IPv6 with colons, MAC with six colon-separated
//! bytes, `true`, `false`. Matches: `value` (exact, or all bits of any match kind), `value &&&
//! mask`, `value/length`, `low..high`, `*` (anything). Keys and parameters can be named, in any
//! order, or given by position. Ternary, range, lpm and optional keys can be omitted when keys are
//! named. After the arrow: an action, `member 3` or `group 7`. Then `priority=N`, `timeout=N` (s,
//! ms, us, ns).
//!
//! `default` instead of the keys is the table's default action, used on a miss; it has an action
//! and no options:
//!
//! ```text
//! ingress.routes: default -> to_nc(addr=192.0.2.1, port=3)
//! ```

use crate::batch::StateUpdate;
use crate::entry::{ActionSpec, TableEntry, UpdateKind};
use crate::layout::KeyLayout;
use crate::packed::PackedEntry;
use ir::{ActionCall, Entity, KeyMatch, MatchKey, MatchKind, Param, Pipeline, TableId, Type};
use num_bigint::BigUint;
use num_traits::{Num, One};
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// Syntax or name error in an entry's text. [`crate::ControlState::check`] validates the entry for
/// its table.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs)]
pub enum EntryTextError {
    /// Syntax error.
    #[error("`{text}`: {expected}, as in `table: key=10.0.0.0/8 -> action(port=1) priority=5`")]
    Syntax { text: String, expected: &'static str },
    /// No such table.
    #[error("there is no table `{name}`; the tables are {known}")]
    UnknownTable { name: String, known: String },
    /// A suffix of several tables' names.
    #[error("`{name}` is ambiguous; write one of {known}")]
    SeveralTables { name: String, known: String },
    /// No such action.
    #[error("table {table} has no action `{name}`; its actions are {known}")]
    UnknownAction { table: String, name: String, known: String },
    /// No such key or parameter.
    #[error("{owner} has no {what} `{name}`; it has {known}")]
    UnknownName { owner: String, what: &'static str, name: String, known: String },
    /// A key or parameter is missing.
    #[error("{owner}: {what} `{name}` is missing")]
    Missing { owner: String, what: &'static str, name: String },
    /// The text is not a condition on a key.
    #[error("`{text}` is no condition; write KEY=VALUE or KEY=VALUE/LENGTH, as in `src=10.0.0.0/8`")]
    Condition { text: String },
    /// The text is not a value.
    #[error("`{text}` is no value; write a number, 0x..., an IPv4, IPv6 or MAC address, true or false")]
    Value { text: String },
    /// A match that the key's match kind does not support.
    #[error("key {key} is {kind}: `{text}` is no match for it")]
    Match { key: String, kind: &'static str, text: String },
}

fn syntax_error(text: &str, expected: &'static str) -> EntryTextError {
    EntryTextError::Syntax { text: text.to_owned(), expected }
}

/// Reports whether `name` is the full control-plane name or a suffix of it after a dot.
pub fn matches_name(full: &str, name: &str) -> bool {
    full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns the position of the only matching name. A full name takes precedence over a suffix.
///
/// # Errors
/// The names with this suffix: none, or several.
pub fn find_name<'a>(all: impl IntoIterator<Item = &'a str>, name: &str) -> Result<usize, Vec<&'a str>> {
    let mut ends = Vec::new();
    for (at, full) in all.into_iter().enumerate() {
        if full == name {
            return Ok(at);
        }
        if matches_name(full, name) {
            ends.push((at, full));
        }
    }
    match ends[..] {
        [(at, _)] => Ok(at),
        _ => Err(ends.into_iter().map(|(_, full)| full).collect()),
    }
}

/// Returns the only item of that name. The error lists all names.
fn find_by_name<T: Copy>(items: impl Iterator<Item = (T, String)>, name: &str) -> Result<T, String> {
    let items: Vec<(T, String)> = items.collect();
    let all = || items.iter().map(|(_, full)| full.as_str());
    find_name(all(), name).map(|at| items[at].0).map_err(|_| all().collect::<Vec<_>>().join(", "))
}

/// Returns the table of that name: a full name, or a suffix after a dot that only one table has.
///
/// # Errors
/// [`EntryTextError::UnknownTable`] or [`EntryTextError::SeveralTables`], with the candidate names.
pub fn find_table(pipeline: &Pipeline, name: &str) -> Result<TableId, EntryTextError> {
    let all = || pipeline.tables.values().map(|table| table.preamble.name.as_str());
    let unknown = |ends: Vec<&str>| {
        let name = name.to_owned();
        match ends.is_empty() {
            true => EntryTextError::UnknownTable { name, known: all().collect::<Vec<_>>().join(", ") },
            false => EntryTextError::SeveralTables { name, known: ends.join(", ") },
        }
    };
    find_name(all(), name).map(TableId::from_index).map_err(unknown)
}

/// Parses an entry. Names can be given by a suffix (`routes` for `ingress.routes`) where that is
/// unambiguous.
pub fn parse_entry(pipeline: &Pipeline, text: &str) -> Result<TableEntry, EntryTextError> {
    let text = text.trim();
    let (table_name, after_table) = split_table(text).ok_or_else(|| syntax_error(text, "expected `table:` first"))?;
    let (keys, after_arrow) =
        after_table.split_once("->").ok_or_else(|| syntax_error(text, "expected `->` before the action"))?;
    let id = find_table(pipeline, table_name.trim())?;
    let table = &pipeline.tables[id];
    let keys = parse_keys(&table.preamble.name, &table.keys, keys)?;
    let (action, options) =
        split_action(after_arrow.trim()).ok_or_else(|| syntax_error(after_arrow, "expected an action"))?;
    let action = parse_action(pipeline, table, action)?;
    let mut entry = TableEntry::new(id, keys, action);
    for option in options.split_whitespace() {
        match option.split_once('=') {
            Some(("priority", number)) => {
                entry.priority = number.parse().map_err(|_| syntax_error(option, "expected a number as priority"))?;
            }
            Some(("timeout", time)) => {
                entry.idle_timeout_ns =
                    parse_time(time).ok_or_else(|| syntax_error(option, "expected a time like 30s"))?;
            }
            _ => return Err(syntax_error(option, "expected `priority=N` or `timeout=N`")),
        }
    }
    Ok(entry)
}

/// Parses a line: an entry to be inserted, or a default action to be set. Names are resolved as in
/// [`parse_entry`].
///
/// # Errors
/// The line is neither.
pub fn parse_write(pipeline: &Pipeline, text: &str) -> Result<StateUpdate, EntryTextError> {
    let parts = split_table(text.trim()).and_then(|(table, rest)| Some((table, rest.split_once("->")?)));
    let Some((table, (_, action))) = parts.filter(|(_, (keys, _))| keys.trim() == "default") else {
        return parse_entry(pipeline, text).map(|entry| StateUpdate::Entry(UpdateKind::Insert, entry));
    };
    let id = find_table(pipeline, table.trim())?;
    let (action, options) = split_action(action.trim()).ok_or_else(|| syntax_error(text, "expected an action"))?;
    if !options.trim().is_empty() {
        return Err(syntax_error(options.trim(), "a default action has no priority and no timeout"));
    }
    match parse_action(pipeline, &pipeline.tables[id], action)? {
        spec @ ActionSpec::Call(_) => Ok(StateUpdate::DefaultAction(id, Some(spec))),
        _ => Err(syntax_error(action, "a default action is an action, not a member or group")),
    }
}

/// Splits `table: keys` at the first colon that is followed by a space, so that names can contain
/// colons.
fn split_table(text: &str) -> Option<(&str, &str)> {
    text.split_once(": ").or_else(|| text.split_once(':').filter(|(_, rest)| rest.starts_with("->")))
}

/// Splits after the action, at its closing parenthesis.
fn split_action(text: &str) -> Option<(&str, &str)> {
    if text.starts_with("member ") || text.starts_with("group ") {
        let end = text.match_indices(' ').nth(1).map_or(text.len(), |(at, _)| at);
        return Some(text.split_at(end));
    }
    let word = text.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(text.len());
    if word == 0 {
        return None;
    }
    match text[word..].starts_with('(') {
        true => text.find(')').map(|at| text.split_at(at + 1)),
        false => Some(text.split_at(word)),
    }
}

fn parse_time(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "" | "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "us" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

fn parse_keys(owner: &str, keys: &[MatchKey], text: &str) -> Result<Vec<KeyMatch>, EntryTextError> {
    let declared: Vec<&MatchKey> = keys.iter().filter(|k| k.kind != MatchKind::Selector).collect();
    let given = parse_list(owner, "key", &declared.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), text)?;
    let one = |(key, text): (&&MatchKey, Option<&str>)| match text {
        Some(text) => parse_match(key, text),
        None => key.kind.key_match(key.ty, None).ok_or_else(|| EntryTextError::Missing {
            owner: format!("table {owner}"),
            what: "key",
            name: key.name.clone(),
        }),
    };
    declared.iter().zip(given).map(one).collect()
}

/// Parses a comma-separated list of `name=text` or `text`; a text without name belongs to the name
/// at its position. Returns the text for each name in `known`, `None` if it is missing. `owner` and
/// `what` name the table or action, and the kind of item, in errors.
fn parse_list<'a>(
    owner: &str,
    what: &'static str,
    known: &[&str],
    text: &'a str,
) -> Result<Vec<Option<&'a str>>, EntryTextError> {
    let mut texts = vec![None; known.len()];
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    for (position, item) in items.enumerate() {
        let (name, value) = match item.split_once('=') {
            Some((name, value)) => (Some(name.trim()), value.trim()),
            None => (None, item),
        };
        let index = match name {
            Some(name) => find_by_name(known.iter().enumerate().map(|(i, n)| (i, (*n).to_owned())), name).ok(),
            None => Some(position).filter(|p| *p < known.len()),
        };
        let Some(index) = index else {
            let name = name.unwrap_or(value).to_owned();
            return Err(EntryTextError::UnknownName { owner: owner.to_owned(), what, name, known: known.join(", ") });
        };
        texts[index] = Some(value);
    }
    Ok(texts)
}

fn all_ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Parses the match of one key in a form of its match kind: `value`, `value/length`,
/// `value&&&mask`, `lo..hi`, or `*` for any value.
fn parse_match(key: &MatchKey, text: &str) -> Result<KeyMatch, EntryTextError> {
    let kind = key.kind.keyword();
    let error = || EntryTextError::Match { key: key.name.clone(), kind, text: text.to_owned() };
    if text == "*" {
        return key.kind.key_match(key.ty, None).ok_or_else(error);
    }
    let width = key.ty.width();
    if let Some((value, mask)) = text.split_once("&&&") {
        let (value, mask) = (parse_value(value.trim())?, parse_value(mask.trim())?);
        return if key.kind == MatchKind::Ternary { Ok(KeyMatch::Ternary { value, mask }) } else { Err(error()) };
    }
    if let Some((value, length)) = text.split_once('/') {
        let value = parse_value(value.trim())?;
        let prefix_len: u32 = length.trim().parse().map_err(|_| error())?;
        return match key.kind {
            MatchKind::Lpm => Ok(KeyMatch::Lpm { value, prefix_len }),
            MatchKind::Ternary if prefix_len <= width => {
                let host_bits = width - prefix_len;
                Ok(KeyMatch::Ternary { value, mask: (all_ones(width) >> host_bits) << host_bits })
            }
            _ => Err(error()),
        };
    }
    if let Some((lo, hi)) = text.split_once("..") {
        let (lo, hi) = (parse_value(lo.trim())?, parse_value(hi.trim())?);
        return if key.kind == MatchKind::Range { Ok(KeyMatch::Range { lo, hi }) } else { Err(error()) };
    }
    key.kind.key_match(key.ty, Some(parse_value(text)?)).ok_or_else(error)
}

/// Parses a number: decimal, `0x` or `0b` with `_` between digits, `true`, `false`, an IPv4, IPv6
/// or MAC address. The length is limited, because the conversion takes quadratic time.
pub(crate) fn parse_value(text: &str) -> Result<BigUint, EntryTextError> {
    let error = || EntryTextError::Value { text: text.to_owned() };
    if text.len() > 20_000 {
        return Err(error());
    }
    let number = match text {
        "true" => Some(BigUint::one()),
        "false" => Some(BigUint::ZERO),
        _ if text.contains('.') => text.parse::<Ipv4Addr>().ok().map(|a| BigUint::from(u32::from(a))),
        _ if text.contains(':') => parse_colons(text),
        _ => {
            let digits = text.replace('_', "");
            match digits.get(..2) {
                Some("0x" | "0X") => BigUint::from_str_radix(&digits[2..], 16).ok(),
                Some("0b" | "0B") => BigUint::from_str_radix(&digits[2..], 2).ok(),
                _ => BigUint::from_str_radix(&digits, 10).ok(),
            }
        }
    };
    number.ok_or_else(error)
}

/// Parses a MAC address (six groups of two digits) or an IPv6 address.
fn parse_colons(text: &str) -> Option<BigUint> {
    let groups: Vec<&str> = text.split(':').collect();
    if groups.len() == 6 && groups.iter().all(|g| g.len() == 2) {
        return BigUint::from_str_radix(&groups.concat(), 16).ok();
    }
    text.parse::<Ipv6Addr>().ok().map(|a| BigUint::from(u128::from(a)))
}

/// Parses `name(arguments)`, `member N` or `group N` as the action of an entry.
fn parse_action(pipeline: &Pipeline, table: &ir::Table, text: &str) -> Result<ActionSpec, EntryTextError> {
    let parse_number = |n: &str| n.trim().parse().map_err(|_| syntax_error(text, "expected a number"));
    if let Some(id) = text.strip_prefix("member ") {
        return Ok(ActionSpec::Member(parse_number(id)?));
    }
    if let Some(id) = text.strip_prefix("group ") {
        return Ok(ActionSpec::Group(parse_number(id)?));
    }
    let (name, args) = text.split_once('(').unwrap_or((text, ""));
    let name = name.trim();
    let actions = table.actions.iter().filter_map(|a| Some((a.action, pipeline.actions.get(a.action)?)));
    let id = find_by_name(actions.map(|(id, a)| (id, a.preamble.name.clone())), name).map_err(|known| {
        EntryTextError::UnknownAction { table: table.preamble.name.clone(), name: name.to_owned(), known }
    })?;
    let action = &pipeline.actions[id];
    let param_names: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
    let arg_texts = parse_list(&action.preamble.name, "parameter", &param_names, args.trim_end_matches(')'))?;
    let parse_arg = |(param, text): (&Param, Option<&str>)| match text {
        Some(text) => parse_value(text),
        None => Err(EntryTextError::Missing {
            owner: format!("action {}", action.preamble.name),
            what: "parameter",
            name: param.name.clone(),
        }),
    };
    let args: Result<Vec<BigUint>, _> = action.params.iter().zip(arg_texts).map(parse_arg).collect();
    Ok(ActionSpec::Call(ActionCall { action: id, args: args? }))
}

/// Formats an entry in the syntax of [`parse_entry`]. The entry must be valid for the pipeline.
/// Priority and timeout are left out if they are 0.
pub fn format_entry(pipeline: &Pipeline, entry: &TableEntry) -> String {
    let Some(table) = pipeline.tables.get(entry.table) else { return format!("table number {}", entry.table.0) };
    let mut out = format!("{}: {} -> ", table.preamble.name, format_key_list(&table.keys, &entry.keys));
    match &entry.action {
        ActionSpec::Member(id) => out.push_str(&format!("member {id}")),
        ActionSpec::Group(id) => out.push_str(&format!("group {id}")),
        ActionSpec::Call(call) => {
            let Some(action) = pipeline.actions.get(call.action) else { return out };
            let args = action.params.iter().zip(&call.args);
            let args: Vec<String> = args.map(|(p, v)| format!("{}={}", p.name, format_value(p.ty, v))).collect();
            out.push_str(&format!("{}({})", action.preamble.name, args.join(", ")));
        }
    }
    if entry.priority != 0 {
        let _ = write!(out, " priority={}", entry.priority);
    }
    if entry.idle_timeout_ns != 0 {
        let _ = write!(out, " timeout={}ns", entry.idle_timeout_ns);
    }
    out
}

fn format_key_list(declared: &[MatchKey], keys: &[KeyMatch]) -> String {
    let declared = declared.iter().filter(|k| k.kind != MatchKind::Selector);
    let one = |(key, given): (&MatchKey, &KeyMatch)| format!("{}={}", key.name, format_match(key.ty, given));
    declared.zip(keys).map(one).collect::<Vec<_>>().join(", ")
}

/// Formats table, keys and priority of an entry, which suffice to delete it.
pub fn format_identity(pipeline: &Pipeline, entry: &PackedEntry) -> String {
    let Some(table) = pipeline.tables.get(entry.table) else { return format!("table number {}", entry.table.0) };
    let keys = KeyLayout::new(&table.keys).unpack(entry.key());
    let priority = if entry.priority == 0 { String::new() } else { format!(" priority={}", entry.priority) };
    format!("{}: {}{priority}", table.preamble.name, format_key_list(&table.keys, &keys))
}

/// Formats the identity of an entry, for messages.
pub(crate) fn format_keys(declared: &[MatchKey], keys: &[KeyMatch], priority: i32) -> String {
    match priority {
        0 => format!("({})", format_key_list(declared, keys)),
        _ => format!("({}) with priority {priority}", format_key_list(declared, keys)),
    }
}

fn format_match(ty: Type, given: &KeyMatch) -> String {
    match given {
        KeyMatch::Exact(v) => format_value(ty, v),
        KeyMatch::Ternary { value: v, mask } => format!("{} &&& {}", format_value(ty, v), format_value(ty, mask)),
        KeyMatch::Lpm { value: v, prefix_len } => format!("{}/{prefix_len}", format_value(ty, v)),
        KeyMatch::Range { lo, hi } => format!("{}..{}", format_value(ty, lo), format_value(ty, hi)),
        KeyMatch::Optional(Some(v)) => format_value(ty, v),
        KeyMatch::Optional(None) => "*".to_owned(),
    }
}

/// Formats a value. Addresses are printed as numbers, because a width of 32 or 48 bits alone does
/// not identify an address.
fn format_value(ty: Type, value: &BigUint) -> String {
    match ty {
        Type::Bool => (*value != BigUint::ZERO).to_string(),
        _ if ty.width() <= 16 => value.to_string(),
        _ => format!("{value:#x}"),
    }
}
