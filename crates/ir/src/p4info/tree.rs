//! P4Info as a tree of fields: the one description of its messages.
//!
//! Text is printed from the tree, two P4Infos are compared by it, and the crate `p4runtime` makes
//! the protobuf message of it. [`messages!`] lists the fields of a message in the order of their
//! numbers, with the value of each:
//!
//! ```text
//! Digest |d| { preamble: d.preamble, type_spec: d.type_spec }
//! preamble { ... } type_spec { ... }
//! ```

use super::model::*;
use super::txtpb::{MessageTree, MessageValue};

/// A value that a field of a message can have.
pub(super) trait FieldValue {
    /// Adds the field, unless the value is the default that protobuf treats as absent.
    fn add_field(&self, name: &str, message: &mut MessageTree);
}

/// A value that is a message.
pub(super) trait ToMessage {
    /// Returns the fields of the message.
    fn to_message(&self) -> MessageTree;
}

impl<T: ToMessage> FieldValue for T {
    fn add_field(&self, name: &str, message: &mut MessageTree) {
        message.message(name, self.to_message());
    }
}

/// Declares messages: field names and values.
macro_rules! messages {
    ($($type:ty |$it:ident| { $($name:ident: $value:expr),* $(,)? })*) => {
        $(impl $crate::p4info::tree::ToMessage for $type {
            fn to_message(&self) -> MessageTree {
                let ($it, mut message) = (self, MessageTree::default());
                $($crate::p4info::tree::FieldValue::add_field(&$value, stringify!($name), &mut message);)*
                message
            }
        })*
    };
}
pub(super) use messages;

/// A message with only a name: `P4NamedType`, a member of an enumeration.
pub(super) struct NameMessage<'a>(pub &'a str);

/// A member of a protobuf enumeration.
pub(super) struct EnumWord(pub &'static str);

/// An entry of a map, or a pair of a structured annotation.
pub(super) struct MapEntry<'a>(pub &'a str, pub MessageTree);

/// Wraps the name of an optional type as a message.
fn type_name_message(name: &Option<String>) -> Option<NameMessage<'_>> {
    name.as_deref().map(NameMessage)
}

impl ToMessage for MessageTree {
    fn to_message(&self) -> MessageTree {
        self.clone()
    }
}

messages! {
    P4Info |m| {
        pkg_info: m.pkg_info,
        tables: m.tables,
        actions: m.actions,
        action_profiles: m.action_profiles,
        counters: m.counters,
        direct_counters: m.direct_counters,
        meters: m.meters,
        direct_meters: m.direct_meters,
        controller_packet_metadata: m.controller_packet_metadata,
        value_sets: m.value_sets,
        registers: m.registers,
        digests: m.digests,
        type_info: m.type_info,
    }
    Documentation |m| { brief: m.brief, description: m.description }
    PkgInfo |m| {
        name: m.name,
        version: m.version,
        doc: m.doc,
        annotations: m.annotations.plain,
        arch: m.arch,
        organization: m.organization,
        contact: m.contact,
        url: m.url,
        structured_annotations: m.annotations.structured,
        platform_properties: PlatformProperties(&m.platform_properties),
    }
    PlatformProperties<'_> |m| {
        multicast_group_table_size: m.size("multicast_group_table_size"),
        multicast_group_table_total_replicas: m.size("multicast_group_table_total_replicas"),
        multicast_group_table_max_replicas_per_entry: m.size("multicast_group_table_max_replicas_per_entry"),
    }
    Preamble |m| {
        id: m.id,
        name: m.name,
        alias: m.alias,
        annotations: m.annotations.plain,
        doc: m.doc,
        structured_annotations: m.annotations.structured,
    }
    Table |m| {
        preamble: m.preamble,
        match_fields: m.match_fields,
        action_refs: m.action_refs,
        const_default_action_id: m.const_default_action_id,
        initial_default_action: m.initial_default_action,
        implementation_id: m.implementation_id,
        direct_resource_ids: m.direct_resource_ids,
        size: m.size,
        idle_timeout_behavior: m.notify_idle_timeout.then_some(EnumWord("NOTIFY_CONTROL")),
        is_const_table: m.is_const_table,
        has_initial_entries: m.has_initial_entries,
    }
    ActionCall |m| { action_id: m.action_id, arguments: m.arguments }
    (u32, Vec<u8>) |m| { param_id: m.0, value: m.1 }
    MatchField |m| {
        id: m.id,
        name: m.name,
        annotations: m.annotations.plain,
        bitwidth: m.bitwidth,
        match_type: m.match_type.map(|match_type| EnumWord(match match_type {
            MatchType::Exact => "EXACT",
            MatchType::Lpm => "LPM",
            MatchType::Ternary => "TERNARY",
            MatchType::Range => "RANGE",
            MatchType::Optional => "OPTIONAL",
        })),
        doc: m.doc,
        type_name: type_name_message(&m.type_name),
        structured_annotations: m.annotations.structured,
    }
    ActionRef |m| {
        id: m.id,
        annotations: m.annotations.plain,
        scope: match m.scope {
            Scope::TableAndDefault => None,
            Scope::TableOnly => Some(EnumWord("TABLE_ONLY")),
            Scope::DefaultOnly => Some(EnumWord("DEFAULT_ONLY")),
        },
        structured_annotations: m.annotations.structured,
    }
    Action |m| { preamble: m.preamble, params: m.params }
    Param |m| {
        id: m.id,
        name: m.name,
        annotations: m.annotations.plain,
        bitwidth: m.bitwidth,
        doc: m.doc,
        type_name: type_name_message(&m.type_name),
        structured_annotations: m.annotations.structured,
    }
    ActionProfile |m| {
        preamble: m.preamble,
        table_ids: m.table_ids,
        with_selector: m.with_selector,
        size: m.size,
        max_group_size: m.max_group_size,
        sum_of_weights: (m.size_semantics == Some(SizeSemantics::SumOfWeights)).then(MessageTree::default),
        sum_of_members: match m.size_semantics {
            Some(SizeSemantics::SumOfMembers { max_member_weight }) => Some(single_field("max_member_weight", &max_member_weight)),
            _ => None,
        },
    }
    Unit |m| {
        unit: EnumWord(match m {
            Unit::Bytes => "BYTES",
            Unit::Packets => "PACKETS",
            Unit::Both => "BOTH",
        }),
    }
    Counter |m| { preamble: m.preamble, spec: m.unit, size: m.size, index_type_name: type_name_message(&m.index_type_name) }
    DirectCounter |m| { preamble: m.preamble, spec: m.unit, direct_table_id: m.direct_table_id }
    Meter |m| { preamble: m.preamble, spec: m.unit, size: m.size, index_type_name: type_name_message(&m.index_type_name) }
    DirectMeter |m| { preamble: m.preamble, spec: m.unit, direct_table_id: m.direct_table_id }
    ControllerPacketMetadata |m| { preamble: m.preamble, metadata: m.metadata }
    ValueSet |m| { preamble: m.preamble, match: m.matches, size: m.size }
    Register |m| {
        preamble: m.preamble,
        type_spec: m.type_spec,
        size: m.size,
        index_type_name: type_name_message(&m.index_type_name),
    }
    Digest |m| { preamble: m.preamble, type_spec: m.type_spec }
    NameMessage<'_> |m| { name: *m.0 }
    MapEntry<'_> |m| { key: *m.0, value: m.1 }
    StructuredAnnotation |m| {
        name: m.name,
        expression_list: match &m.body {
            AnnotationBody::Expressions(list) => Some(single_field("expressions", list)),
            _ => None,
        },
        kv_pair_list: match &m.body {
            AnnotationBody::Pairs(pairs) => Some(single_field("kv_pairs", &map_entries(pairs.iter().map(|(key, value)| (key, value)), Expression::to_message))),
            _ => None,
        },
    }
}

struct PlatformProperties<'a>(&'a std::collections::BTreeMap<String, i64>);

impl PlatformProperties<'_> {
    fn size(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// A member of a oneof is present even if it has its default value.
impl ToMessage for Expression {
    fn to_message(&self) -> MessageTree {
        let (name, value) = match self {
            Expression::String(text) => ("string_value", MessageValue::Bytes(text.clone().into_bytes())),
            Expression::Int(value) => ("int64_value", MessageValue::Word(value.to_string())),
            Expression::Bool(value) => ("bool_value", MessageValue::Word(value.to_string())),
        };
        MessageTree { fields: vec![(name.into(), value)] }
    }
}

/// Creates a message with one field.
pub(super) fn single_field(name: &str, value: &(impl FieldValue + ?Sized)) -> MessageTree {
    let mut message = MessageTree::default();
    value.add_field(name, &mut message);
    message
}

/// Creates map entries from keys and values, converting each value to a message.
pub(super) fn map_entries<'a, V: 'a>(
    pairs: impl IntoIterator<Item = (&'a String, &'a V)>,
    fields: impl Fn(&V) -> MessageTree,
) -> Vec<MapEntry<'a>> {
    pairs.into_iter().map(|(key, value)| MapEntry(key, fields(value))).collect()
}

impl FieldValue for EnumWord {
    fn add_field(&self, name: &str, message: &mut MessageTree) {
        message.word(name, self.0);
    }
}

macro_rules! scalars {
    ($($type:ty => $method:ident,)*) => {
        $(impl FieldValue for $type {
            fn add_field(&self, name: &str, message: &mut MessageTree) {
                message.$method(name, self);
            }
        })*
    };
}

scalars! { u32 => word, i64 => word, bool => word, str => text, String => text, Vec<u8> => bytes, }

impl<T: FieldValue> FieldValue for [T] {
    fn add_field(&self, name: &str, message: &mut MessageTree) {
        self.iter().for_each(|value| value.add_field(name, message));
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    fn add_field(&self, name: &str, message: &mut MessageTree) {
        self.as_slice().add_field(name, message);
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    fn add_field(&self, name: &str, message: &mut MessageTree) {
        self.iter().for_each(|value| value.add_field(name, message));
    }
}
