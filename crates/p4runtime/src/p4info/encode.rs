//! From the model to messages.

use super::annotation::{documentation, structured};
use super::{named, number, types};
use crate::proto::config;
use ir::p4info as model;
use model::{MatchType, Scope, SizeSemantics, Unit};

pub(super) fn p4info(info: &model::P4Info) -> config::P4Info {
    config::P4Info {
        pkg_info: pkg_info(&info.pkg_info),
        tables: info.tables.iter().map(table).collect(),
        actions: info.actions.iter().map(action).collect(),
        action_profiles: info.action_profiles.iter().map(action_profile).collect(),
        counters: info.counters.iter().map(counter).collect(),
        direct_counters: info.direct_counters.iter().map(direct_counter).collect(),
        meters: info.meters.iter().map(meter).collect(),
        direct_meters: info.direct_meters.iter().map(direct_meter).collect(),
        controller_packet_metadata: info.controller_packet_metadata.iter().map(controller_header).collect(),
        value_sets: info.value_sets.iter().map(value_set).collect(),
        registers: info.registers.iter().map(register).collect(),
        digests: info.digests.iter().map(digest).collect(),
        externs: Vec::new(),
        type_info: types::type_info(&info.type_info),
    }
}

fn pkg_info(info: &model::PkgInfo) -> Option<config::PkgInfo> {
    let size = |name: &str| info.platform_properties.get(name).map_or(0, |value| number(*value));
    let properties = config::PlatformProperties {
        multicast_group_table_size: size("multicast_group_table_size"),
        multicast_group_table_total_replicas: size("multicast_group_table_total_replicas"),
        multicast_group_table_max_replicas_per_entry: size("multicast_group_table_max_replicas_per_entry"),
    };
    let message = config::PkgInfo {
        name: info.name.clone(),
        version: info.version.clone(),
        doc: documentation(&info.doc),
        annotations: info.annotations.plain.clone(),
        arch: info.arch.clone(),
        organization: info.organization.clone(),
        contact: info.contact.clone(),
        url: info.url.clone(),
        structured_annotations: structured(&info.annotations),
        annotation_locations: Vec::new(),
        platform_properties: (properties != config::PlatformProperties::default()).then_some(properties),
    };
    (message != config::PkgInfo::default()).then_some(message)
}

fn preamble(preamble: &model::Preamble) -> Option<config::Preamble> {
    Some(config::Preamble {
        id: preamble.id,
        name: preamble.name.clone(),
        alias: preamble.alias.clone(),
        annotations: preamble.annotations.plain.clone(),
        doc: documentation(&preamble.doc),
        structured_annotations: structured(&preamble.annotations),
        annotation_locations: Vec::new(),
    })
}

fn table(table: &model::Table) -> config::Table {
    use config::table::IdleTimeoutBehavior::{NoTimeout, NotifyControl};
    config::Table {
        preamble: preamble(&table.preamble),
        match_fields: table.match_fields.iter().map(match_field).collect(),
        action_refs: table.action_refs.iter().map(action_ref).collect(),
        const_default_action_id: table.const_default_action_id,
        initial_default_action: Some(action_call(&table.initial_default_action)),
        implementation_id: table.implementation_id,
        direct_resource_ids: table.direct_resource_ids.clone(),
        size: table.size,
        idle_timeout_behavior: (if table.notify_idle_timeout { NotifyControl } else { NoTimeout }).into(),
        is_const_table: table.is_const_table,
        has_initial_entries: table.has_initial_entries,
        other_properties: None,
    }
}

fn action_call(call: &model::ActionCall) -> config::TableActionCall {
    let argument = |(param_id, value): &(u32, Vec<u8>)| config::table_action_call::Argument {
        param_id: *param_id,
        value: value.clone().into(),
    };
    config::TableActionCall { action_id: call.action_id, arguments: call.arguments.iter().map(argument).collect() }
}

fn match_field(field: &model::MatchField) -> config::MatchField {
    use config::match_field as to;
    let kind = |kind| match kind {
        MatchType::Exact => to::MatchType::Exact,
        MatchType::Lpm => to::MatchType::Lpm,
        MatchType::Ternary => to::MatchType::Ternary,
        MatchType::Range => to::MatchType::Range,
        MatchType::Optional => to::MatchType::Optional,
    };
    config::MatchField {
        id: field.id,
        name: field.name.clone(),
        annotations: field.annotations.plain.clone(),
        bitwidth: number(field.bitwidth),
        r#match: field.match_type.map(|k| to::Match::MatchType(kind(k).into())),
        doc: documentation(&field.doc),
        type_name: named(field.type_name.as_ref()),
        structured_annotations: structured(&field.annotations),
        annotation_locations: Vec::new(),
    }
}

fn action_ref(action: &model::ActionRef) -> config::ActionRef {
    let scope = match action.scope {
        Scope::TableAndDefault => config::action_ref::Scope::TableAndDefault,
        Scope::TableOnly => config::action_ref::Scope::TableOnly,
        Scope::DefaultOnly => config::action_ref::Scope::DefaultOnly,
    };
    config::ActionRef {
        id: action.id,
        annotations: action.annotations.plain.clone(),
        scope: scope.into(),
        structured_annotations: structured(&action.annotations),
        annotation_locations: Vec::new(),
    }
}

fn action(action: &model::Action) -> config::Action {
    let param = |param: &model::Param| config::action::Param {
        id: param.id,
        name: param.name.clone(),
        annotations: param.annotations.plain.clone(),
        bitwidth: number(param.bitwidth),
        doc: documentation(&param.doc),
        type_name: named(param.type_name.as_ref()),
        structured_annotations: structured(&param.annotations),
        annotation_locations: Vec::new(),
    };
    config::Action { preamble: preamble(&action.preamble), params: action.params.iter().map(param).collect() }
}

fn action_profile(profile: &model::ActionProfile) -> config::ActionProfile {
    use config::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
    config::ActionProfile {
        preamble: preamble(&profile.preamble),
        table_ids: profile.table_ids.clone(),
        with_selector: profile.with_selector,
        size: profile.size,
        max_group_size: number(profile.max_group_size),
        selector_size_semantics: profile.size_semantics.map(|semantics| match semantics {
            SizeSemantics::SumOfWeights => SelectorSizeSemantics::SumOfWeights(SumOfWeights {}),
            SizeSemantics::SumOfMembers { max_member_weight } => {
                SelectorSizeSemantics::SumOfMembers(SumOfMembers { max_member_weight: number(max_member_weight) })
            }
        }),
        weights_disallowed: false,
    }
}

fn counter_spec(unit: Unit) -> Option<config::CounterSpec> {
    let unit = match unit {
        Unit::Bytes => config::counter_spec::Unit::Bytes,
        Unit::Packets => config::counter_spec::Unit::Packets,
        Unit::Both => config::counter_spec::Unit::Both,
    };
    Some(config::CounterSpec { unit: unit.into() })
}

/// No meter has both units, so that there is no number for them.
fn meter_spec(unit: Unit) -> Option<config::MeterSpec> {
    let unit = match unit {
        Unit::Bytes => config::meter_spec::Unit::Bytes,
        Unit::Packets => config::meter_spec::Unit::Packets,
        Unit::Both => config::meter_spec::Unit::Unspecified,
    };
    Some(config::MeterSpec { unit: unit.into(), r#type: config::meter_spec::Type::TwoRateThreeColor.into() })
}

fn counter(counter: &model::Counter) -> config::Counter {
    config::Counter {
        preamble: preamble(&counter.preamble),
        spec: counter_spec(counter.unit),
        size: counter.size,
        index_type_name: named(counter.index_type_name.as_ref()),
    }
}

fn direct_counter(counter: &model::DirectCounter) -> config::DirectCounter {
    config::DirectCounter {
        preamble: preamble(&counter.preamble),
        spec: counter_spec(counter.unit),
        direct_table_id: counter.direct_table_id,
    }
}

fn meter(meter: &model::Meter) -> config::Meter {
    config::Meter {
        preamble: preamble(&meter.preamble),
        spec: meter_spec(meter.unit),
        size: meter.size,
        index_type_name: named(meter.index_type_name.as_ref()),
    }
}

fn direct_meter(meter: &model::DirectMeter) -> config::DirectMeter {
    config::DirectMeter {
        preamble: preamble(&meter.preamble),
        spec: meter_spec(meter.unit),
        direct_table_id: meter.direct_table_id,
    }
}

fn controller_header(header: &model::ControllerPacketMetadata) -> config::ControllerPacketMetadata {
    let field = |field: &model::Param| config::controller_packet_metadata::Metadata {
        id: field.id,
        name: field.name.clone(),
        annotations: field.annotations.plain.clone(),
        bitwidth: number(field.bitwidth),
        type_name: named(field.type_name.as_ref()),
        structured_annotations: structured(&field.annotations),
        annotation_locations: Vec::new(),
    };
    config::ControllerPacketMetadata {
        preamble: preamble(&header.preamble),
        metadata: header.metadata.iter().map(field).collect(),
    }
}

fn value_set(set: &model::ValueSet) -> config::ValueSet {
    config::ValueSet {
        preamble: preamble(&set.preamble),
        r#match: set.matches.iter().map(match_field).collect(),
        size: number(set.size),
    }
}

fn register(register: &model::Register) -> config::Register {
    config::Register {
        preamble: preamble(&register.preamble),
        type_spec: Some(types::type_spec(&register.type_spec)),
        size: number(register.size),
        index_type_name: named(register.index_type_name.as_ref()),
    }
}

fn digest(digest: &model::Digest) -> config::Digest {
    config::Digest { preamble: preamble(&digest.preamble), type_spec: Some(types::type_spec(&digest.type_spec)) }
}
