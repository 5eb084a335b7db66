//! Checks the emitted text of each PNA program of the repository against rules of the chip's open
//! compiler (p4c, `backends/tofino`): constructs that it rejects in any program, or compiles with
//! another meaning. The rules come from that compiler's sources: parsers from
//! `parde/extract_parser.cpp` and `parde/check_parser_multi_write.cpp`, conditions from
//! `mau/gateway.cpp`, arithmetic from `mau/instruction_selection.cpp`.

use crate::check;
use asic::emit::{EmitTarget, emit};
use asic::transform::TableSizes;
use std::collections::{BTreeMap, BTreeSet};
use testkit::gateway;

/// Parser state of the text.
#[derive(Default)]
struct State {
    name: String,
    code: Vec<String>,
    next: Vec<String>,
}

/// Returns the states of the first parser.
fn states(text: &str) -> Vec<State> {
    let mut found: Vec<State> = Vec::new();
    for line in text.lines().skip_while(|l| !l.starts_with("parser ")).take_while(|l| !l.starts_with('}')) {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("state ") {
            found.push(State { name: rest.trim_end_matches(" {").to_owned(), ..State::default() });
            continue;
        }
        let Some(state) = found.last_mut() else { continue };
        if let Some(rest) = line.strip_prefix("transition ") {
            if !rest.starts_with("select(") {
                state.next.push(rest.trim_end_matches(';').to_owned());
            } else {
                state.code.push(rest.to_owned());
            }
        } else if let Some((_, to)) = line.rsplit_once(": ") {
            state.next.push(to.trim_end_matches(';').to_owned());
        } else if line.ends_with(';') {
            state.code.push(line.to_owned());
        }
    }
    found
}

/// Returns destination and source of an assignment.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (to, value) = line.trim_end_matches(';').split_once(" = ")?;
    Some((to.rsplit(' ').next().unwrap_or(to), value))
}

fn computes(text: &str) -> bool {
    [" + ", " - ", " & ", " | ", " ^ ", " |-| ", " |+| ", " ? ", " << ", " >> ", " * "]
        .iter()
        .any(|sign| text.contains(sign))
}

/// Checks that checksums are updated where their header is extracted, and that states only move
/// bits.
fn parser_moves(states: &[State], broken: &mut Vec<String>) {
    for state in states {
        let mut extracted = BTreeSet::new();
        for line in &state.code {
            if let Some(header) = line.strip_prefix("packet.extract(") {
                extracted.insert(header.trim_end_matches(");").to_owned());
            }
            if let Some((_, fields)) = line.split_once(".add({ ") {
                for field in fields.trim_end_matches(" });").split(", ") {
                    let header = field.rsplit_once('.').map_or("", |(header, _)| header);
                    if !extracted.contains(header) {
                        broken.push(format!("{}: {field} is summed up where it is not extracted", state.name));
                    }
                }
            }
            let header =
                assignment(line).and_then(|(_, value)| value.strip_prefix("hdr.")?.rsplit_once('.')).map(|(h, _)| h);
            if header.is_some_and(|header| !extracted.contains(&format!("hdr.{header}"))) {
                broken.push(format!("{}: `{line}` copies what has gone by", state.name));
            }
            if assignment(line).is_some_and(|(_, value)| computes(value)) {
                broken.push(format!("{}: `{line}` computes", state.name));
            }
            if line.starts_with("select(") && computes(line) {
                broken.push(format!("{}: `{line}` computes", state.name));
            }
        }
    }
}

/// Checks that no field is written twice on one path.
fn written_once(states: &[State], broken: &mut Vec<String>) {
    let index: BTreeMap<&str, usize> = states.iter().enumerate().map(|(n, s)| (s.name.as_str(), n)).collect();
    let writes = |n: usize| states[n].code.iter().filter_map(|l| assignment(l)).map(|(to, _)| to).collect::<Vec<_>>();
    for start in 0..states.len() {
        let own = writes(start);
        let twice = own.iter().enumerate().filter(|(n, to)| own[..*n].contains(to)).map(|(_, to)| *to);
        broken.extend(twice.map(|to| format!("{}: {to} is written twice", states[start].name)));
        let (mut seen, mut todo) = (BTreeSet::new(), vec![start]);
        while let Some(at) = todo.pop() {
            for next in states[at].next.iter().filter_map(|name| index.get(name.as_str()).copied()) {
                if seen.insert(next) {
                    todo.push(next);
                    let again = writes(next).into_iter().filter(|to| own.contains(to));
                    broken.extend(
                        again.map(|to| format!("{to} is written in {} and {}", states[start].name, states[next].name)),
                    );
                }
            }
        }
    }
}

/// Returns for each field its first bit in its header, and its width.
fn fields(text: &str) -> BTreeMap<String, (u32, u32)> {
    let mut types: BTreeMap<&str, Vec<(&str, u32)>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    let mut inside = "";
    for line in text.lines().take_while(|line| !line.starts_with("parser ")) {
        if let Some(name) = line.strip_prefix("header ").or(line.strip_prefix("struct ")) {
            inside = name.trim_end_matches(" {");
        } else if let Some((ty, name)) = line.strip_prefix("    ").and_then(|l| l.strip_suffix(';')?.split_once(' ')) {
            if let Some(width) = ty.strip_prefix("bit<").and_then(|w| w.strip_suffix('>')?.parse().ok()) {
                types.entry(inside).or_default().push((name, width));
            } else if inside.ends_with("headers_t") {
                let mut at = 0;
                for (field, width) in types.get(ty).into_iter().flatten() {
                    all.insert(format!("hdr.{name}.{field}"), (at, *width));
                    at += width;
                }
            }
        }
    }
    all
}

/// Checks the parser's match registers: selects use at most 4 bytes of a header, and no range
/// exceeds a byte. Returns the number of matched bytes.
fn match_registers(text: &str, states: &[State], broken: &mut Vec<String>) -> usize {
    let fields = fields(text);
    let mut asked: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for state in states {
        for line in state.code.iter().filter_map(|l| l.strip_prefix("select(")) {
            for (field, (at, width)) in &fields {
                let whole = |part: &str| part.trim_matches(|c: char| "(){} ".contains(c)) == field;
                if line.split(", ").any(whole) {
                    let own = at / 8..(at + width).div_ceil(8);
                    asked.entry(field.rsplit_once('.').map_or("", |(h, _)| h)).or_default().extend(own);
                }
            }
        }
    }
    let many = asked.iter().filter(|(_, bytes)| bytes.len() > 4);
    broken.extend(many.map(|(header, bytes)| format!("{} bytes of {header} are asked for in the parser", bytes.len())));
    let parsers = text.lines().skip_while(|l| !l.starts_with("parser ")).take_while(|l| !l.starts_with('}'));
    let wide = |l: &&str| {
        let ends: Option<(&str, &str)> = l.trim().split_once(" .. ");
        let to = ends.and_then(|(_, to)| to.split([':', ',', ')']).next());
        to.is_some_and(|to| {
            let number = to.strip_prefix("0x").map_or(to.parse(), |hex| u64::from_str_radix(hex, 16));
            number.is_ok_and(|n| n > 0xff)
        })
    };
    broken.extend(parsers.filter(wide).map(|l| format!("a range in the parser: {}", l.trim())));
    asked.values().map(BTreeSet::len).sum()
}

/// Checks that conditions compare available values, and that ALUs never select, and saturate only
/// at the width of a container.
fn gateways_and_alus(text: &str, broken: &mut Vec<String>) {
    let mut widths: BTreeMap<String, u32> = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some((width, rest)) = line.strip_prefix("bit<").and_then(|rest| rest.split_once("> ")) {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            widths.insert(name, width.parse().unwrap_or(0));
        }
        let condition = line.split_once("if (").map(|(_, rest)| rest);
        if let Some(condition) = condition {
            let sums = [" + ", " - ", " |-| ", " |+| ", " ^ ", " < ", " > ", " <= ", " >= ", "(bit<"];
            if let Some(sign) = sums.iter().find(|sign| condition.contains(**sign)) {
                broken.push(format!("a condition with `{sign}`: {condition}"));
            }
        }
        if line.contains("(!") && line.contains(".apply().hit") {
            broken.push(format!("the opposite of a hit: {line}"));
        }
        if line == "return;" {
            broken.push("a `return`".into());
        }
        if line.contains(" ? ") {
            broken.push(format!("an ALU chooses: {line}"));
        }
        if let (true, Some((to, _))) = (line.contains(" |-| ") || line.contains(" |+| "), assignment(line))
            && !matches!(widths.get(to), Some(8 | 16 | 32))
            && !to.contains('.')
        {
            broken.push(format!("clamped at {:?} bits: {line}", widths.get(to)));
        }
    }
}

/// Checks that a field that is part of a byte reaches another position only through the hash unit.
fn parts_of_bytes(text: &str, broken: &mut Vec<String>) -> usize {
    let part = |(_, (at, width)): &(String, (u32, u32))| at % 8 != 0 || width % 8 != 0;
    let parts: BTreeSet<String> = fields(text).into_iter().filter(part).map(|(name, _)| name).collect();
    let (mut moves, mut in_action) = (0, false);
    let lines = text.lines().skip_while(|l| !l.starts_with("control ")).map(str::trim);
    for line in lines {
        // An action gets its parameters from action data, not from containers.
        in_action = in_action && line != "}" || line.starts_with("action ") && line.ends_with('{');
        if in_action {
            continue;
        }
        let code = line.split_once("() { ").map_or(line, |(_, code)| code.trim_end_matches(" }"));
        let hashed = code.starts_with("@in_hash");
        let code = code.trim_start_matches("@in_hash { ");
        let Some((to, value)) = code.split_once(';').and_then(|(text, _)| text.split_once(" = ")) else { continue };
        let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
        let constant = value.starts_with(|c: char| c.is_ascii_digit());
        if plain && !constant && (parts.contains(to) || parts.contains(value)) {
            moves += 1;
            if !hashed {
                broken.push(format!("parts of bytes are moved by an ALU: {line}"));
            }
        }
    }
    moves
}

/// Returns the repository's PNA programs.
pub fn programs() -> Vec<std::path::PathBuf> {
    let root = gateway::root();
    let mut paths: Vec<_> = std::fs::read_dir(root.join("tests/corpus/pna"))
        .expect("the corpus")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext == "p4"))
        .collect();
    paths.sort();
    paths.extend(["gateway/gateway.p4", "overlay/overlay.p4"].map(|name| root.join("programs").join(name)));
    paths.extend(
        ["ant", "ofd", "ols", "otl", "psc"].map(|name| root.join(format!("programs/vswitch/{name}/{name}.p4"))),
    );
    assert!(paths.len() > 20, "{} programs", paths.len());
    paths
}

#[test]
fn nothing_is_written_that_the_chip_refuses_in_any_program() {
    let mut refused = Vec::new();
    let (mut sums, mut conditions, mut moves, mut asked, mut parts) = (0, 0, 0, 0, 0);
    for path in programs() {
        let mut pipeline = gateway::compile(&path).unwrap_or_else(|error| panic!("{error}"));
        if path.ends_with("gateway.p4") {
            pipeline = (*gateway::switch_pipeline().expect("the gateway")).clone();
        }
        for target in [EmitTarget::Tna, EmitTarget::T2na] {
            let text = match emit(&pipeline, target, &TableSizes::new()) {
                Ok(emitted) => emitted.text,
                Err(error) => {
                    refused.push(format!("{}: {error}", path.display()));
                    continue;
                }
            };
            let states = states(&text);
            let mut broken = check(&text);
            parser_moves(&states, &mut broken);
            written_once(&states, &mut broken);
            parts += parts_of_bytes(&text, &mut broken);
            asked += match_registers(&text, &states, &mut broken);
            gateways_and_alus(&text, &mut broken);
            assert!(broken.is_empty(), "{}: {}\n{text}", path.display(), broken.join("\n"));
            sums += text.matches(".add({").count();
            conditions += text.matches("if (").count();
            moves += states.iter().flat_map(|s| &s.code).filter(|l| assignment(l).is_some()).count();
        }
    }
    // One program has a loop, the deparser of one computes.
    let known = |r: &String| {
        (r.contains("random.p4") && r.contains("a loop"))
            || (r.contains("three_blocks.p4") && r.contains("a deparser that decides or computes"))
    };
    assert!(refused.len() == 4 && refused.iter().all(known), "{refused:?}");
    // Otherwise nothing was checked.
    assert!(
        sums >= 8 && conditions > 100 && moves > 20 && asked > 100 && parts >= 10,
        "{sums} sums, {conditions} conditions, {moves} moves, {asked} bytes, {parts} parts"
    );
}
