//! Parses a test into a [`Script`].
//!
//! One command per line. Command words are case-insensitive; `#` starts a comment.

use super::StfError;
use super::cursor::{Cursor, MAX_LINE};
use super::script::*;
use super::value::{integer, match_value, number};

/// Parses a whole test. `file` names it in errors.
///
/// # Errors
/// At the first line that is not a valid command, with the token and the fix.
pub fn parse(file: &str, text: &str) -> Result<Script, StfError> {
    let mut commands = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let mut cursor = Cursor::new(file, number, line);
        if line.len() > MAX_LINE {
            return Err(cursor.error(format!("the line is longer than {MAX_LINE} bytes"), "split it"));
        }
        if cursor.at_end() {
            continue;
        }
        let command = parse_command(&mut cursor)?;
        if !cursor.at_end() {
            return Err(cursor.error("unexpected text after the command", "one command per line; remove the rest"));
        }
        commands.push(Located { line: number, command });
    }
    Ok(Script { file: file.to_owned(), commands })
}

/// Parses the command at the start of a line: p4c's, then bmv2's, then the project's own.
fn parse_command(c: &mut Cursor<'_>) -> Result<Command, StfError> {
    let start = c.clone();
    let word = c.word().to_ascii_lowercase();
    match word.as_str() {
        "add" => parse_add(c),
        "setdefault" => Ok(Command::SetDefault { table: c.name("table")?, action: parse_action(c)? }),
        "remove" => parse_remove(c),
        "packet" => Ok(Command::Packet { port: integer(c, "port")?, bytes: packet_bytes(c)? }),
        "expect" => Ok(Command::Expect { port: integer(c, "port")?, pattern: packet_pattern(c)? }),
        "no_packet" => Ok(Command::NoPacket),
        "wait" => Ok(Command::Wait),
        "check_counter" => check_counter(c),
        _ => match parse_bmv2_command(&word, c)? {
            Some(command) => Ok(command),
            None => match parse_own_command(&word, c)? {
                Some(own) => Ok(Command::Own(own)),
                None => Err(start.error(
                    "unknown command",
                    "the commands are add, setdefault, remove, packet, expect, no_packet, wait, check_*, mirroring_*, mc_*, \
                     counter_*, register_*, meter_*, member_create, group_create, value_set_add, idle_timeout, expire_time and \
                     advance_time",
                )),
            },
        },
    }
}

/// Parses the commands that p4c passes to bmv2's command line.
/// `None`: it is none of them.
fn parse_bmv2_command(word: &str, c: &mut Cursor<'_>) -> Result<Option<Command>, StfError> {
    Ok(Some(match word {
        "mirroring_add" => Command::MirroringAdd { session: integer(c, "session")?, port: integer(c, "port")? },
        "mirroring_add_mc" => Command::MirroringAddMc { session: integer(c, "session")?, group: integer(c, "group")? },
        "mirroring_delete" => Command::MirroringDelete { session: integer(c, "session")? },
        "mirroring_get" => Command::MirroringGet { session: integer(c, "session")? },
        "mc_mgrp_create" => Command::McGroupCreate { group: integer(c, "group")? },
        "mc_node_create" => Command::McNodeCreate { rid: integer(c, "replication id")?, ports: integers(c, "port")? },
        "mc_node_update" => Command::McNodeUpdate { node: integer(c, "node")?, ports: integers(c, "port")? },
        "mc_node_associate" => Command::McNodeAssociate { group: integer(c, "group")?, node: integer(c, "node")? },
        "counter_read" => Command::CounterRead { name: c.name("counter")?, index: integer(c, "index")? },
        "counter_write" => Command::CounterWrite {
            name: c.name("counter")?,
            index: integer(c, "index")?,
            packets: integer(c, "number of packets")?,
            bytes: integer(c, "number of bytes")?,
        },
        "register_read" => Command::RegisterRead { name: c.name("register")?, index: integer(c, "index")? },
        "register_write" => {
            Command::RegisterWrite { name: c.name("register")?, index: integer(c, "index")?, value: number(c)? }
        }
        "register_reset" => Command::RegisterReset { name: c.name("register")? },
        "meter_get_rates" => Command::MeterGetRates { name: c.name("meter")?, index: integer(c, "index")? },
        "meter_set_rates" => {
            Command::MeterSetRates { name: c.name("meter")?, cell: parse_cell(c)?, rates: meter_rates(c)? }
        }
        "meter_array_set_rates" => Command::MeterArraySetRates { name: c.name("meter")?, rates: meter_rates(c)? },
        _ => return Ok(None),
    }))
}

/// Parses the project's own commands. `None`: it is none of them.
fn parse_own_command(word: &str, c: &mut Cursor<'_>) -> Result<Option<OwnCommand>, StfError> {
    Ok(Some(match word {
        "check_register" => OwnCommand::CheckRegister {
            name: c.name("register")?,
            index: integer(c, "index")?,
            comparison: comparison(c)?,
            value: number(c)?,
        },
        "check_digest" => OwnCommand::CheckDigest { name: c.name("digest")?, fields: digest_fields(c)? },
        "advance_time" => OwnCommand::AdvanceTime { nanoseconds: duration(c)? },
        "check_entries" => OwnCommand::CheckEntries {
            table: c.name("table")?,
            comparison: comparison(c)?,
            count: integer(c, "number of entries")?,
        },
        "member_create" => OwnCommand::MemberCreate {
            profile: c.name("action profile")?,
            member: integer(c, "member")?,
            action: parse_action(c)?,
        },
        "group_create" => OwnCommand::GroupCreate {
            profile: c.name("action selector")?,
            group: integer(c, "group")?,
            members: integers(c, "member")?,
        },
        "idle_timeout" => OwnCommand::IdleTimeout { handle: parse_handle(c)?, nanoseconds: duration(c)? },
        "expire_time" => OwnCommand::ExpireTime { profile: integer(c, "profile")?, nanoseconds: duration(c)? },
        "check_idle" if c.peek() == Some('$') => OwnCommand::CheckIdle { handle: Some(parse_handle(c)?) },
        "check_idle" => {
            c.expect_text("none", "write check_idle $h, or check_idle none")?;
            OwnCommand::CheckIdle { handle: None }
        }
        "value_set_add" => {
            let name = c.name("value set")?;
            let mut keys = Vec::new();
            while !c.at_end() {
                let is_named = c.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '$' | '"'));
                let key = if is_named { Some(key_name(c)?) } else { None };
                keys.push((key, match_value(c)?));
            }
            OwnCommand::ValueSetAdd { name, keys }
        }
        _ => return Ok(None),
    }))
}

/// Parses `add TABLE [PRIORITY] KEY:VALUE... ACTION(ARGS) [= HANDLE]`. A name is a key if a colon
/// follows it.
fn parse_add(c: &mut Cursor<'_>) -> Result<Command, StfError> {
    let table = c.name("table")?;
    let has_priority = c.peek().is_some_and(|next| next.is_ascii_digit());
    let priority = if has_priority { Some(integer(c, "priority")?) } else { None };
    let mut keys = Vec::new();
    let target = loop {
        let start = c.clone();
        let name = c.name("key or action")?;
        if c.take(":") {
            keys.push(KeyText { name, value: match_value(c)? });
            continue;
        }
        match c.peek() {
            Some('(') => break entry_target(c, name)?,
            _ => {
                return Err(
                    start.error(format!("`{name}` is neither a key nor an action"), "write key:value or action(args)")
                );
            }
        }
    };
    let handle = if c.take("=") { Some(c.name("handle")?) } else { None };
    Ok(Command::Add { table, priority, keys, target, handle })
}

/// Parses the action of an entry, or `$member(1)` or `$group(1)`. These cannot be actions, because
/// `$` is not a letter of P4. `@member(1)` would not be a name.
fn entry_target(c: &mut Cursor<'_>, name: String) -> Result<EntryTarget, StfError> {
    let number = |c: &mut Cursor<'_>| -> Result<u32, StfError> {
        c.expect_text("(", "write $member(1) or $group(1)")?;
        let id = integer(c, "member or group")?;
        c.expect_text(")", "write $member(1) or $group(1)")?;
        Ok(id)
    };
    Ok(match name.as_str() {
        "$member" => EntryTarget::Member(number(c)?),
        "$group" => EntryTarget::Group(number(c)?),
        _ => EntryTarget::Action(ActionText { name, args: arguments(c, '(', ')')? }),
    })
}

fn key_name(c: &mut Cursor<'_>) -> Result<String, StfError> {
    let name = c.name("key")?;
    c.expect_text(":", "write key:value")?;
    Ok(name)
}

fn parse_action(c: &mut Cursor<'_>) -> Result<ActionText, StfError> {
    Ok(ActionText { name: c.name("action")?, args: arguments(c, '(', ')')? })
}

/// Parses arguments: `(a:1, b:2)` or `(1, 2)`, or nothing at the end of the line.
/// A name before a colon is a parameter; `true` and `false` alone are values.
fn arguments(c: &mut Cursor<'_>, open: char, close: char) -> Result<Vec<Argument>, StfError> {
    let mut args = Vec::new();
    c.expect_text(&open.to_string(), "an action's arguments stand in parentheses, also if there are none")?;
    if c.take(&close.to_string()) {
        return Ok(args);
    }
    loop {
        let start = c.clone();
        let is_named = c.peek().is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '_' | '$' | '"'));
        let name = if is_named { Some(c.name("parameter")?) } else { None };
        match name {
            Some(word) if matches!(word.as_str(), "true" | "false") && !c.take(":") => {
                args.push((None, u64::from(word == "true").into()));
            }
            Some(name) => {
                if !matches!(name.as_str(), "true" | "false") {
                    c.expect_text(":", "write parameter:value")?;
                }
                args.push((Some(name), plain_number(c)?));
            }
            None => args.push((None, plain_number(c)?)),
        }
        if c.take(&close.to_string()) {
            return Ok(args);
        }
        if !c.take(",") {
            return Err(start.error(format!("expected `,` or `{close}` after this argument"), "write (a:1, b:2)"));
        }
    }
}

fn plain_number(c: &mut Cursor<'_>) -> Result<super::value::Number, StfError> {
    c.peek();
    let start = c.clone();
    let value = number(c)?;
    match value.has_wildcards() {
        true => Err(start.error("an argument has to be a number without `*`", "replace each `*` by a digit")),
        false => Ok(value),
    }
}

/// Parses a handle: `$name`.
fn parse_handle(c: &mut Cursor<'_>) -> Result<String, StfError> {
    c.expect_text("$", "name the entry by its handle: $h, after `add ... = h`")?;
    c.name("handle")
}

fn parse_remove(c: &mut Cursor<'_>) -> Result<Command, StfError> {
    let start = c.clone();
    let what = c.name("handle")?;
    if what.eq_ignore_ascii_case("all") {
        return Ok(Command::RemoveAll);
    }
    match what.strip_prefix('$') {
        Some(handle) => Ok(Command::Remove { handle: handle.to_owned() }),
        None => {
            Err(start.error("expected `all` or a handle", "write `remove all`, or `remove $h` after `add ... = h`"))
        }
    }
}

fn check_counter(c: &mut Cursor<'_>) -> Result<Command, StfError> {
    let name = c.name("counter")?;
    c.expect_text("(", "write check_counter NAME(index) packets == 1")?;
    let cell = parse_cell(c)?;
    c.expect_text(")", "write check_counter NAME(index) packets == 1")?;
    if c.at_end() {
        return Ok(Command::CheckCounter { name, cell, check: None });
    }
    let start = c.clone();
    let unit = match c.word().to_ascii_lowercase().as_str() {
        "packets" => CountUnit::Packets,
        "bytes" => CountUnit::Bytes,
        _ => return Err(start.error("expected `packets` or `bytes`", "write check_counter NAME(index) packets == 1")),
    };
    Ok(Command::CheckCounter { name, cell, check: Some((unit, comparison(c)?, integer(c, "number")?)) })
}

fn parse_cell(c: &mut Cursor<'_>) -> Result<CellText, StfError> {
    match c.take("$") {
        true => Ok(CellText::Handle(c.name("handle")?)),
        false => Ok(CellText::Index(integer(c, "index")?)),
    }
}

fn comparison(c: &mut Cursor<'_>) -> Result<Comparison, StfError> {
    use Comparison::*;
    for operator in [Eq, Ne, Le, Ge, Lt, Gt] {
        if c.take(operator.symbol()) {
            return Ok(operator);
        }
    }
    Err(c.error("expected a comparison", "write one of ==, !=, <, <=, >, >="))
}

fn integers(c: &mut Cursor<'_>, what: &str) -> Result<Vec<u32>, StfError> {
    let mut list = Vec::new();
    while !c.at_end() {
        list.push(integer(c, what)?);
    }
    Ok(list)
}

/// Parses `RATE:BURST` pairs. A rate may have a decimal point.
fn meter_rates(c: &mut Cursor<'_>) -> Result<Vec<MeterRate>, StfError> {
    let mut rates = Vec::new();
    while !c.at_end() {
        let start = c.clone();
        let text = c.take_while(|ch| ch.is_ascii_digit() || ch == '.');
        let per_microsecond =
            text.parse::<f64>().map_err(|_| start.error("expected a rate", "write RATE:BURST, as in 0.00001:5"))?;
        c.expect_text(":", "write RATE:BURST, as in 0.00001:5")?;
        rates.push(MeterRate { per_microsecond, burst: integer(c, "burst")? });
    }
    Ok(rates)
}

fn digest_fields(c: &mut Cursor<'_>) -> Result<Option<Vec<Argument>>, StfError> {
    if c.peek() == Some('{') {
        return Ok(Some(arguments(c, '{', '}')?));
    }
    let start = c.clone();
    match c.word() {
        "none" => Ok(None),
        _ => Err(start.error("expected the digest's fields", "write {field:value, ...}, or `none`")),
    }
}

/// Parses a number with a unit. Returns nanoseconds.
fn duration(c: &mut Cursor<'_>) -> Result<u64, StfError> {
    let help = "write a duration such as 500ms, 10 us or 2s";
    c.peek();
    let start = c.clone();
    let digits = c.take_while(|ch| ch.is_ascii_digit());
    let amount: u64 = digits.parse().map_err(|_| start.error("expected a duration", help))?;
    let scale = match c.word() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(start.error("the duration has no unit", help)),
    };
    amount.checked_mul(scale).ok_or_else(|| start.error("the duration does not fit 64 bits of nanoseconds", help))
}

/// Parses the bytes of a packet: hex digits, with spaces anywhere.
fn packet_bytes(c: &mut Cursor<'_>) -> Result<Vec<u8>, StfError> {
    // Skips spaces, so that an error points to the first digit.
    c.peek();
    let start = c.clone();
    let mut nibbles = Vec::new();
    while let Some(next) = c.peek() {
        match next.to_digit(16) {
            Some(digit) => nibbles.push(digit as u8),
            None => {
                return Err(
                    c.error("a packet's bytes are written as hex digits", "remove this, or write it as hex digits")
                );
            }
        }
        c.take(next.encode_utf8(&mut [0; 4]));
    }
    if nibbles.len() % 2 == 1 {
        return Err(start.error("the packet ends in half a byte", "add or remove one hex digit"));
    }
    Ok(nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Parses an expected packet: hex digits, `*` for any digit, and `$` at the end for the exact
/// length. `None`: any packet.
fn packet_pattern(c: &mut Cursor<'_>) -> Result<Option<PacketPattern>, StfError> {
    if c.at_end() {
        return Ok(None);
    }
    let mut pattern = PacketPattern { nibbles: Vec::new(), exact_length: false };
    while let Some(next) = c.peek() {
        match (next, next.to_digit(16)) {
            (_, Some(digit)) => pattern.nibbles.push(Some(digit as u8)),
            ('*', _) => pattern.nibbles.push(None),
            ('$', _) => {
                c.take("$");
                pattern.exact_length = true;
                break;
            }
            _ => {
                return Err(c.error(
                    "an expected packet is written as hex digits and `*`",
                    "remove this; `$` may end the line",
                ));
            }
        }
        c.take(next.encode_utf8(&mut [0; 4]));
    }
    Ok(Some(pattern))
}
