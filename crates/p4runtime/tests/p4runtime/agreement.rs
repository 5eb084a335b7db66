//! Tests when a controller's P4Info and a device's pipeline agree: exactly when all messages
//! between them keep their meaning.

use crate::all_kinds;
use p4runtime::p4info::{agreement, to_message};
use p4runtime::proto::config::{self, P4Info};

/// Returns the effect of a change of a client's P4Info: locations of conflicts, and of remarks.
fn after(change: impl FnOnce(&mut P4Info)) -> (Vec<String>, Vec<String>) {
    let ours = all_kinds::p4info();
    let mut theirs = to_message(&ours);
    change(&mut theirs);
    assert_ne!(theirs, to_message(&ours), "the change changes something");
    let found = agreement(&ours, &theirs).expect("it can be read");
    let paths = |list: Vec<ir::p4info::P4InfoDifference>| list.into_iter().map(|d| d.path).collect();
    (paths(found.conflicts), paths(found.remarks))
}

fn remark(change: impl FnOnce(&mut P4Info), path: &str) {
    let (conflicts, remarks) = after(change);
    assert_eq!(conflicts, Vec::<String>::new(), "of {path}");
    assert!(remarks.iter().any(|found| found == path), "{path} is not in {remarks:?}");
}

fn conflict(change: impl FnOnce(&mut P4Info), path: &str) {
    let (conflicts, _) = after(change);
    assert!(conflicts.iter().any(|found| found == path), "{path} is not in {conflicts:?}");
}

fn preamble(preamble: &mut Option<config::Preamble>) -> &mut config::Preamble {
    preamble.as_mut().expect("every object has one")
}

#[test]
fn what_informs_people_may_differ() {
    remark(
        |m| preamble(&mut m.tables[0].preamble).annotations[1] = "@y( 1 )".into(),
        "tables[in.t].preamble.annotations[0]",
    );
    remark(|m| preamble(&mut m.tables[0].preamble).annotations.clear(), "tables[in.t].preamble.annotations[0]");
    remark(|m| preamble(&mut m.tables[0].preamble).doc = None, "tables[in.t].preamble.doc");
    remark(|m| preamble(&mut m.actions[0].preamble).alias = "in.set".into(), "actions[in.set].preamble.alias");
    remark(|m| m.actions[0].params[0].annotations.clear(), "actions[in.set].params[1].annotations[0]");
    remark(
        |m| m.tables[0].match_fields[0].structured_annotations.clear(),
        "tables[in.t].match_fields[1].structured_annotations[list]",
    );
    remark(|m| m.pkg_info = None, "pkg_info");
    remark(|m| m.pkg_info.as_mut().expect("there").version = "2".into(), "pkg_info.version");
    remark(|m| m.pkg_info.as_mut().expect("there").arch.clear(), "pkg_info.arch");
    let annotate = |m: &mut P4Info| {
        let types = &mut m.type_info.as_mut().expect("there").new_types;
        types.get_mut("new_t").expect("there").annotations.push("@more".into());
    };
    remark(annotate, "type_info.new_types[new_t].value.annotations[0]");
}

#[test]
fn older_compilers_leave_fields_out() {
    remark(|m| m.tables[0].initial_default_action = None, "tables[in.t].initial_default_action");
    remark(|m| m.tables[0].has_initial_entries = false, "tables[in.t].has_initial_entries");
    remark(|m| m.counters[0].index_type_name = None, "counters[in.counter1].index_type_name");
    remark(|m| m.registers[0].index_type_name = None, "registers[in.reg].index_type_name");
    remark(|m| m.actions[0].params[0].type_name = None, "actions[in.set].params[1].type_name");
    remark(|m| m.action_profiles[1].selector_size_semantics = None, "action_profiles[in.profile2].sum_of_weights");
    remark(|m| m.action_profiles[1].max_group_size = 0, "action_profiles[in.profile2].max_group_size");
    remark(|m| m.type_info.as_mut().expect("there").enums.clear(), "type_info.enums[enum_t]");
    remark(|m| m.type_info = None, "type_info");
    // All at once, as p4c of 2019 wrote them.
    let old = |m: &mut P4Info| {
        m.pkg_info = None;
        m.tables[0].initial_default_action = None;
        m.tables[0].has_initial_entries = false;
        m.action_profiles.iter_mut().for_each(|p| p.selector_size_semantics = None);
    };
    assert_eq!(after(old).0, Vec::<String>::new());
}

#[test]
fn places_in_source_files_and_order_are_nothing() {
    let ours = all_kinds::p4info();
    let mut theirs = to_message(&ours);
    let location = config::SourceLocation { file: "x.p4".into(), line: 1, column: 2 };
    preamble(&mut theirs.tables[0].preamble).annotation_locations = vec![location];
    theirs.action_profiles.reverse();
    theirs.counters.reverse();
    theirs.tables[0].match_fields.reverse();
    theirs.tables[0].direct_resource_ids.reverse();
    assert_eq!(agreement(&ours, &theirs), Ok(Default::default()));
}

#[test]
fn what_both_say_to_each_other_has_to_be_the_same() {
    conflict(|m| preamble(&mut m.tables[0].preamble).id += 1, "tables[in.t].preamble.id");
    conflict(|m| preamble(&mut m.tables[0].preamble).name = "in.u".into(), "tables[in.u]");
    conflict(|m| m.tables.clear(), "tables[in.t]");
    conflict(|m| m.tables[0].match_fields[1].bitwidth = 9, "tables[in.t].match_fields[2].bitwidth");
    conflict(|m| m.tables[0].match_fields[1].name = "other".into(), "tables[in.t].match_fields[2].name");
    conflict(|m| drop(m.tables[0].match_fields.remove(1)), "tables[in.t].match_fields[2]");
    conflict(|m| m.tables[0].match_fields[1].id = 20, "tables[in.t].match_fields[20]");
    let exact = config::match_field::Match::MatchType(config::match_field::MatchType::Exact.into());
    conflict(|m| m.tables[0].match_fields[1].r#match = Some(exact), "tables[in.t].match_fields[2].match_type");
    conflict(|m| m.tables[0].match_fields[0].type_name = None, "tables[in.t].match_fields[1].type_name");
    conflict(|m| m.tables[0].const_default_action_id = 0, "tables[in.t].const_default_action_id");
    conflict(|m| m.tables[0].implementation_id = 0, "tables[in.t].implementation_id");
    conflict(|m| m.tables[0].direct_resource_ids.truncate(1), "tables[in.t].direct_resource_ids[0]");
    conflict(|m| m.tables[0].idle_timeout_behavior = 0, "tables[in.t].idle_timeout_behavior");
    conflict(|m| m.tables[0].is_const_table = false, "tables[in.t].is_const_table");
    conflict(|m| m.actions[0].params[0].bitwidth = 8, "actions[in.set].params[1].bitwidth");
    conflict(|m| m.actions.clear(), "actions[in.set]");
    conflict(|m| m.action_profiles[0].with_selector = true, "action_profiles[in.profile1].with_selector");
    conflict(|m| m.action_profiles[0].table_ids.clear(), "action_profiles[in.profile1].table_ids");
    conflict(|m| m.meters[0].spec.as_mut().expect("there").unit = 2, "meters[in.meter1].spec.unit");
    conflict(|m| m.registers[0].type_spec = m.digests[0].type_spec.clone(), "registers[in.reg].type_spec.bitstring");
    conflict(
        |m| m.controller_packet_metadata[0].metadata[0].bitwidth = 16,
        "controller_packet_metadata[in.packet_in].metadata[1].bitwidth",
    );
    conflict(|m| m.digests.clear(), "digests[in.digest]");
    conflict(|m| m.value_sets[0].r#match.truncate(1), "value_sets[in.vs].match[2]");
    let types = |m: &mut P4Info| {
        let structs = &mut m.type_info.as_mut().expect("there").structs;
        structs.get_mut("struct_t").expect("there").members.swap(0, 1);
    };
    conflict(types, "type_info.structs[struct_t].value.members[0].name");
    let translated = |m: &mut P4Info| {
        let types = &mut m.type_info.as_mut().expect("there").new_types;
        let string = types["named_t"].clone();
        types.insert("translated_t".into(), string);
    };
    conflict(translated, "type_info.new_types[translated_t].value.translated_type.sdn_string");
}

#[test]
fn a_client_may_count_on_less_room_than_there_is() {
    remark(|m| m.tables[0].size = 5, "tables[in.t].size");
    remark(|m| m.tables[0].size = 0, "tables[in.t].size");
    remark(|m| m.counters[0].size = 9, "counters[in.counter1].size");
    conflict(|m| m.tables[0].size += 1, "tables[in.t].size");
    conflict(|m| m.counters[0].size = 11, "counters[in.counter1].size");
    conflict(|m| m.registers[0].size = 31, "registers[in.reg].size");
    conflict(|m| m.value_sets[0].size = 5, "value_sets[in.vs].size");
    remark(|m| m.action_profiles[0].max_group_size = 7, "action_profiles[in.profile1].max_group_size");
    conflict(|m| m.action_profiles[0].max_group_size = 9, "action_profiles[in.profile1].max_group_size");
}

#[test]
fn an_action_that_no_table_lists_is_in_no_request() {
    let more = |m: &mut P4Info| {
        let mut action = m.actions[0].clone();
        let preamble = preamble(&mut action.preamble);
        (preamble.id, preamble.name) = (0x0100_0009, "in.called".into());
        m.actions.push(action);
    };
    remark(more, "actions[in.called]");
}
