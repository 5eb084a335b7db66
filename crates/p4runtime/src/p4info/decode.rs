//! From messages to the model.

use super::annotation::{self, read_documentation};
use super::{Unreadable, count, name_of, types};
use crate::proto::config;
use ir::p4info as model;
use model::{MatchType, Scope, SizeSemantics, Unit};

pub(super) fn p4info(message: &config::P4Info) -> Result<model::P4Info, Unreadable> {
    if !message.externs.is_empty() {
        return Err(unsupported("P4Info", "externs"));
    }
    Ok(model::P4Info {
        pkg_info: pkg_info(&message.pkg_info)?,
        tables: all(&message.tables, table)?,
        actions: all(&message.actions, action)?,
        action_profiles: all(&message.action_profiles, action_profile)?,
        counters: all(&message.counters, counter)?,
        direct_counters: all(&message.direct_counters, direct_counter)?,
        meters: all(&message.meters, meter)?,
        direct_meters: all(&message.direct_meters, direct_meter)?,
        controller_packet_metadata: all(&message.controller_packet_metadata, controller_header)?,
        value_sets: all(&message.value_sets, value_set)?,
        registers: all(&message.registers, register)?,
        digests: all(&message.digests, digest)?,
        type_info: types::read_type_info(&message.type_info)?,
    })
}

fn all<M, T>(list: &[M], read: impl Fn(&M) -> Result<T, Unreadable>) -> Result<Vec<T>, Unreadable> {
    list.iter().map(read).collect()
}

fn unsupported(place: &str, field: &'static str) -> Unreadable {
    Unreadable::Unsupported { place: place.to_owned(), field }
}

fn unknown(place: &str, field: &'static str, value: i32) -> Unreadable {
    Unreadable::Number { place: place.to_owned(), field, value: value.into() }
}

fn pkg_info(message: &Option<config::PkgInfo>) -> Result<model::PkgInfo, Unreadable> {
    let Some(message) = message else { return Ok(model::PkgInfo::default()) };
    let sizes = message.platform_properties.unwrap_or_default();
    let sizes = [
        ("multicast_group_table_size", sizes.multicast_group_table_size),
        ("multicast_group_table_total_replicas", sizes.multicast_group_table_total_replicas),
        ("multicast_group_table_max_replicas_per_entry", sizes.multicast_group_table_max_replicas_per_entry),
    ];
    let set = sizes.into_iter().filter(|(_, size)| *size != 0);
    Ok(model::PkgInfo {
        name: message.name.clone(),
        version: message.version.clone(),
        doc: read_documentation(&message.doc),
        annotations: annotation::read("pkg_info", &message.annotations, &message.structured_annotations)?,
        arch: message.arch.clone(),
        organization: message.organization.clone(),
        contact: message.contact.clone(),
        url: message.url.clone(),
        platform_properties: set.map(|(name, size)| (name.to_owned(), i64::from(size))).collect(),
    })
}

/// The preamble of an object, whose name is the place of what is wrong in it.
fn preamble(kind: &str, message: &Option<config::Preamble>) -> Result<model::Preamble, Unreadable> {
    let missing = || Unreadable::Missing { place: kind.to_owned(), field: "preamble" };
    let message = message.as_ref().ok_or_else(missing)?;
    Ok(model::Preamble {
        id: message.id,
        name: message.name.clone(),
        alias: message.alias.clone(),
        annotations: annotation::read(&message.name, &message.annotations, &message.structured_annotations)?,
        doc: read_documentation(&message.doc),
    })
}

fn table(message: &config::Table) -> Result<model::Table, Unreadable> {
    use config::table::IdleTimeoutBehavior;
    let preamble = preamble("tables", &message.preamble)?;
    let place = preamble.name.as_str();
    if message.other_properties.is_some() {
        return Err(unsupported(place, "other_properties"));
    }
    let behaviour = IdleTimeoutBehavior::try_from(message.idle_timeout_behavior)
        .map_err(|_| unknown(place, "idle_timeout_behavior", message.idle_timeout_behavior))?;
    Ok(model::Table {
        match_fields: all(&message.match_fields, |field| match_field(place, field))?,
        action_refs: all(&message.action_refs, |action| action_ref(place, action))?,
        const_default_action_id: message.const_default_action_id,
        initial_default_action: message.initial_default_action.as_ref().map(action_call).unwrap_or_default(),
        implementation_id: message.implementation_id,
        direct_resource_ids: message.direct_resource_ids.clone(),
        size: message.size,
        notify_idle_timeout: behaviour == IdleTimeoutBehavior::NotifyControl,
        is_const_table: message.is_const_table,
        has_initial_entries: message.has_initial_entries,
        preamble,
    })
}

fn action_call(message: &config::TableActionCall) -> model::ActionCall {
    let arguments = message.arguments.iter().map(|argument| (argument.param_id, argument.value.to_vec()));
    model::ActionCall { action_id: message.action_id, arguments: arguments.collect() }
}

fn match_field(place: &str, message: &config::MatchField) -> Result<model::MatchField, Unreadable> {
    use config::match_field::{Match, MatchType as From};
    let match_type = match &message.r#match {
        None => None,
        Some(Match::OtherMatchType(_)) => return Err(unsupported(place, "other_match_type")),
        Some(Match::MatchType(number)) => Some(match From::try_from(*number) {
            Ok(From::Exact) => MatchType::Exact,
            Ok(From::Lpm) => MatchType::Lpm,
            Ok(From::Ternary) => MatchType::Ternary,
            Ok(From::Range) => MatchType::Range,
            Ok(From::Optional) => MatchType::Optional,
            Ok(From::Unspecified) | Err(_) => return Err(unknown(place, "match_type", *number)),
        }),
    };
    Ok(model::MatchField {
        id: message.id,
        name: message.name.clone(),
        annotations: annotation::read(place, &message.annotations, &message.structured_annotations)?,
        bitwidth: count(place, "bitwidth", message.bitwidth)?,
        match_type,
        doc: read_documentation(&message.doc),
        type_name: name_of(&message.type_name),
    })
}

fn action_ref(place: &str, message: &config::ActionRef) -> Result<model::ActionRef, Unreadable> {
    use config::action_ref::Scope as From;
    let scope = match From::try_from(message.scope) {
        Ok(From::TableAndDefault) => Scope::TableAndDefault,
        Ok(From::TableOnly) => Scope::TableOnly,
        Ok(From::DefaultOnly) => Scope::DefaultOnly,
        Err(_) => return Err(unknown(place, "scope", message.scope)),
    };
    let annotations = annotation::read(place, &message.annotations, &message.structured_annotations)?;
    Ok(model::ActionRef { id: message.id, scope, annotations })
}

fn action(message: &config::Action) -> Result<model::Action, Unreadable> {
    let preamble = preamble("actions", &message.preamble)?;
    let place = preamble.name.as_str();
    let params = all(&message.params, |param| {
        Ok(model::Param {
            id: param.id,
            name: param.name.clone(),
            annotations: annotation::read(place, &param.annotations, &param.structured_annotations)?,
            bitwidth: count(place, "bitwidth", param.bitwidth)?,
            doc: read_documentation(&param.doc),
            type_name: name_of(&param.type_name),
        })
    })?;
    Ok(model::Action { params, preamble })
}

fn action_profile(message: &config::ActionProfile) -> Result<model::ActionProfile, Unreadable> {
    use config::action_profile::SelectorSizeSemantics;
    let preamble = preamble("action_profiles", &message.preamble)?;
    if message.weights_disallowed {
        return Err(unsupported(&preamble.name, "weights_disallowed"));
    }
    Ok(model::ActionProfile {
        table_ids: message.table_ids.clone(),
        with_selector: message.with_selector,
        size: message.size,
        max_group_size: message.max_group_size.into(),
        size_semantics: message.selector_size_semantics.as_ref().map(|semantics| match semantics {
            SelectorSizeSemantics::SumOfWeights(_) => SizeSemantics::SumOfWeights,
            SelectorSizeSemantics::SumOfMembers(sum) => {
                SizeSemantics::SumOfMembers { max_member_weight: sum.max_member_weight.into() }
            }
        }),
        preamble,
    })
}

fn counter_unit(place: &str, spec: &Option<config::CounterSpec>) -> Result<Unit, Unreadable> {
    use config::counter_spec::Unit as From;
    let number = spec.unwrap_or_default().unit;
    match From::try_from(number) {
        Ok(From::Bytes) => Ok(Unit::Bytes),
        Ok(From::Packets) => Ok(Unit::Packets),
        Ok(From::Both) => Ok(Unit::Both),
        Ok(From::Unspecified) | Err(_) => Err(unknown(place, "spec.unit", number)),
    }
}

fn meter_unit(place: &str, spec: &Option<config::MeterSpec>) -> Result<Unit, Unreadable> {
    use config::meter_spec::{Type, Unit as From};
    let spec = spec.unwrap_or_default();
    if spec.r#type != i32::from(Type::TwoRateThreeColor) {
        return Err(unsupported(place, "spec.type"));
    }
    match From::try_from(spec.unit) {
        Ok(From::Bytes) => Ok(Unit::Bytes),
        Ok(From::Packets) => Ok(Unit::Packets),
        Ok(From::Unspecified) | Err(_) => Err(unknown(place, "spec.unit", spec.unit)),
    }
}

fn counter(message: &config::Counter) -> Result<model::Counter, Unreadable> {
    let preamble = preamble("counters", &message.preamble)?;
    let unit = counter_unit(&preamble.name, &message.spec)?;
    Ok(model::Counter { unit, size: message.size, index_type_name: name_of(&message.index_type_name), preamble })
}

fn direct_counter(message: &config::DirectCounter) -> Result<model::DirectCounter, Unreadable> {
    let preamble = preamble("direct_counters", &message.preamble)?;
    let unit = counter_unit(&preamble.name, &message.spec)?;
    Ok(model::DirectCounter { unit, direct_table_id: message.direct_table_id, preamble })
}

fn meter(message: &config::Meter) -> Result<model::Meter, Unreadable> {
    let preamble = preamble("meters", &message.preamble)?;
    let unit = meter_unit(&preamble.name, &message.spec)?;
    Ok(model::Meter { unit, size: message.size, index_type_name: name_of(&message.index_type_name), preamble })
}

fn direct_meter(message: &config::DirectMeter) -> Result<model::DirectMeter, Unreadable> {
    let preamble = preamble("direct_meters", &message.preamble)?;
    let unit = meter_unit(&preamble.name, &message.spec)?;
    Ok(model::DirectMeter { unit, direct_table_id: message.direct_table_id, preamble })
}

fn controller_header(
    message: &config::ControllerPacketMetadata,
) -> Result<model::ControllerPacketMetadata, Unreadable> {
    let preamble = preamble("controller_packet_metadata", &message.preamble)?;
    let place = preamble.name.as_str();
    let metadata = all(&message.metadata, |field| {
        Ok(model::Param {
            id: field.id,
            name: field.name.clone(),
            annotations: annotation::read(place, &field.annotations, &field.structured_annotations)?,
            bitwidth: count(place, "bitwidth", field.bitwidth)?,
            doc: model::Documentation::default(),
            type_name: name_of(&field.type_name),
        })
    })?;
    Ok(model::ControllerPacketMetadata { metadata, preamble })
}

fn value_set(message: &config::ValueSet) -> Result<model::ValueSet, Unreadable> {
    let preamble = preamble("value_sets", &message.preamble)?;
    let matches = all(&message.r#match, |field| match_field(&preamble.name, field))?;
    Ok(model::ValueSet { matches, size: message.size.into(), preamble })
}

fn register(message: &config::Register) -> Result<model::Register, Unreadable> {
    let preamble = preamble("registers", &message.preamble)?;
    Ok(model::Register {
        type_spec: types::read_type_spec(&preamble.name, message.type_spec.as_ref())?,
        size: message.size.into(),
        index_type_name: name_of(&message.index_type_name),
        preamble,
    })
}

fn digest(message: &config::Digest) -> Result<model::Digest, Unreadable> {
    let preamble = preamble("digests", &message.preamble)?;
    Ok(model::Digest { type_spec: types::read_type_spec(&preamble.name, message.type_spec.as_ref())?, preamble })
}
