//! Tests P4Info of the repository's programs as messages.

use crate::{all_kinds, python, root};
use p4runtime::p4info::{Unreadable, agreement, to_message};
use p4runtime::proto::config;
use prost::Message;
use std::fs;
use std::path::{Path, PathBuf};

/// Minimum number of programs, and of objects in their P4Info. Fewer mean that they were not found.
const PROGRAMS: usize = 100;
const OBJECTS: usize = 1200;

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            programs(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            found.push(path);
        }
    }
}

/// Returns the P4Info of a program; none for a file that other programs include.
fn p4info_of(path: &Path) -> Option<ir::p4info::P4Info> {
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root().join("programs/include")], ..Default::default() };
    let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, path, &options);
    Some(ir::p4info::generate(&compiled.pipeline?))
}

fn all_programs() -> Vec<(String, ir::p4info::P4Info)> {
    let mut paths = Vec::new();
    programs(&root().join("tests/corpus"), &mut paths);
    paths.push(root().join("programs/gateway/gateway.p4"));
    paths.sort();
    let name =
        |path: &Path| path.strip_prefix(root()).unwrap().with_extension("").display().to_string().replace('/', ".");
    let all: Vec<_> = paths.iter().filter_map(|path| Some((name(path), p4info_of(path)?))).collect();
    assert!(all.len() >= PROGRAMS, "only {} of {} programs compile", all.len(), paths.len());
    all
}

#[test]
fn the_message_says_what_the_text_says() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("p4info");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut all = all_programs();
    all.push(("all_kinds".into(), all_kinds::p4info()));
    for (name, info) in &all {
        fs::write(folder.join(format!("{name}.txtpb")), ir::p4info::to_txtpb(info)).unwrap();
        fs::write(folder.join(format!("{name}.bin")), to_message(info).encode_to_vec()).unwrap();
    }
    let said = python("p4info.py", &[&folder]);
    let counts: Vec<usize> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(counts[0], all.len());
    assert!(counts[1] >= OBJECTS, "only {} objects", counts[1]);
}

#[test]
fn a_message_can_be_read_again() {
    let mut all = all_programs();
    all.push(("all_kinds".into(), all_kinds::p4info()));
    for (name, info) in all {
        let message = to_message(&info);
        let decoded = config::P4Info::decode(message.encode_to_vec().as_slice()).unwrap();
        assert_eq!(decoded, message, "{name}");
        assert_eq!(agreement(&info, &decoded), Ok(Default::default()), "{name}");
    }
}

#[test]
fn what_no_pipeline_has_is_refused_by_name() {
    let check = |change: fn(&mut config::P4Info), expected: &str| {
        let mut message = to_message(&all_kinds::p4info());
        change(&mut message);
        let error = agreement(&all_kinds::p4info(), &message).unwrap_err();
        assert_eq!(error.to_string(), expected);
        error
    };
    check(|m| m.tables[0].preamble = None, "tables: `preamble` is missing");
    check(|m| m.externs.push(Default::default()), "P4Info: `externs` is not supported");
    check(|m| m.registers[0].type_spec = None, "in.reg: `type_spec` is missing");
    check(|m| m.meters[0].spec.as_mut().unwrap().unit = 9, "in.meter1: `spec.unit` cannot be 9");
    check(|m| m.meters[0].spec.as_mut().unwrap().r#type = 1, "in.meter1: `spec.type` is not supported");
    let error = check(|m| m.tables[0].match_fields[0].bitwidth = -1, "in.t: `bitwidth` cannot be -1");
    assert!(matches!(error, Unreadable::Number { value: -1, .. }));
    let other = |m: &mut config::P4Info| {
        m.tables[0].match_fields[0].r#match = Some(config::match_field::Match::OtherMatchType("fuzzy".into()));
    };
    check(other, "in.t: `other_match_type` is not supported");
}
