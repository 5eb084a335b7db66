//! P4Info as a tree of fields: the one description of its messages.
//!
//! Text is printed from the tree, two P4Infos are compared by it, and the crate `p4runtime` makes the protobuf message of
//! it. [`messages!`] lists the fields of a message in the order of their numbers, with the value of each:
//!
//! ```text
//! Digest |d| { preamble: d.preamble, type_spec: d.type_spec }    preamble { ... } type_spec { ... }
//! ```

use super::model::*;
use super::txtpb::{Message, Value};

/// A value that a message can have in a field.
pub(super) trait Field {
    /// Adds the field, unless the value is the default that protobuf takes for absent.
    fn add(&self, name: &str, message: &mut Message);
}

/// A value that is a message.
pub(super) trait Fields {
    /// Its fields.
    fn fields(&self) -> Message;
}

impl<T: Fields> Field for T {
    fn add(&self, name: &str, message: &mut Message) {
        message.message(name, self.fields());
    }
}

/// Describes messages: field names and values.
macro_rules! messages {
    ($($type:ty |$it:ident| { $($name:ident: $value:expr),* $(,)? })*) => {
        $(impl $crate::p4info::tree::Fields for $type {
            fn fields(&self) -> Message {
                let ($it, mut message) = (self, Message::default());
                $($crate::p4info::tree::Field::add(&$value, stringify!($name), &mut message);)*
                message
            }
        })*
    };
}
pub(super) use messages;

/// A message with a name alone: `P4NamedType`, a member of an enumeration.
pub(super) struct Named<'a>(pub &'a str);

/// A member of an enumeration of protobuf.
pub(super) struct Word(pub &'static str);

/// An entry of a map, or a pair of a structured annotation.
pub(super) struct Entry<'a>(pub &'a str, pub Message);

/// What [`Named`] says, of a type that a field may have.
fn named(name: &Option<String>) -> Option<Named<'_>> {
    name.as_deref().map(Named)
}

impl Fields for Message {
    fn fields(&self) -> Message {
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
        idle_timeout_behavior: m.notify_idle_timeout.then_some(Word("NOTIFY_CONTROL")),
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
        match_type: m.match_type.map(|match_type| Word(match match_type {
            MatchType::Exact => "EXACT",
            MatchType::Lpm => "LPM",
            MatchType::Ternary => "TERNARY",
            MatchType::Range => "RANGE",
            MatchType::Optional => "OPTIONAL",
        })),
        doc: m.doc,
        type_name: named(&m.type_name),
        structured_annotations: m.annotations.structured,
    }
    ActionRef |m| {
        id: m.id,
        annotations: m.annotations.plain,
        scope: match m.scope {
            Scope::TableAndDefault => None,
            Scope::TableOnly => Some(Word("TABLE_ONLY")),
            Scope::DefaultOnly => Some(Word("DEFAULT_ONLY")),
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
        type_name: named(&m.type_name),
        structured_annotations: m.annotations.structured,
    }
    ActionProfile |m| {
        preamble: m.preamble,
        table_ids: m.table_ids,
        with_selector: m.with_selector,
        size: m.size,
        max_group_size: m.max_group_size,
        sum_of_weights: (m.size_semantics == Some(SizeSemantics::SumOfWeights)).then(Message::default),
        sum_of_members: match m.size_semantics {
            Some(SizeSemantics::SumOfMembers { max_member_weight }) => Some(one("max_member_weight", &max_member_weight)),
            _ => None,
        },
    }
    Unit |m| {
        unit: Word(match m {
            Unit::Bytes => "BYTES",
            Unit::Packets => "PACKETS",
            Unit::Both => "BOTH",
        }),
    }
    Counter |m| { preamble: m.preamble, spec: m.unit, size: m.size, index_type_name: named(&m.index_type_name) }
    DirectCounter |m| { preamble: m.preamble, spec: m.unit, direct_table_id: m.direct_table_id }
    Meter |m| { preamble: m.preamble, spec: m.unit, size: m.size, index_type_name: named(&m.index_type_name) }
    DirectMeter |m| { preamble: m.preamble, spec: m.unit, direct_table_id: m.direct_table_id }
    ControllerPacketMetadata |m| { preamble: m.preamble, metadata: m.metadata }
    ValueSet |m| { preamble: m.preamble, match: m.matches, size: m.size }
    Register |m| {
        preamble: m.preamble,
        type_spec: m.type_spec,
        size: m.size,
        index_type_name: named(&m.index_type_name),
    }
    Digest |m| { preamble: m.preamble, type_spec: m.type_spec }
    Named<'_> |m| { name: *m.0 }
    Entry<'_> |m| { key: *m.0, value: m.1 }
    StructuredAnnotation |m| {
        name: m.name,
        expression_list: match &m.body {
            AnnotationBody::Expressions(list) => Some(one("expressions", list)),
            _ => None,
        },
        kv_pair_list: match &m.body {
            AnnotationBody::Pairs(pairs) => Some(one("kv_pairs", &entries(pairs.iter().map(|(key, value)| (key, value)), Expression::fields))),
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

/// A member of a oneof is there also when it has its default.
impl Fields for Expression {
    fn fields(&self) -> Message {
        let (name, value) = match self {
            Expression::String(text) => ("string_value", Value::Bytes(text.clone().into_bytes())),
            Expression::Int(value) => ("int64_value", Value::Word(value.to_string())),
            Expression::Bool(value) => ("bool_value", Value::Word(value.to_string())),
        };
        Message { fields: vec![(name.into(), value)] }
    }
}

/// A message with one field.
pub(super) fn one(name: &str, value: &(impl Field + ?Sized)) -> Message {
    let mut message = Message::default();
    value.add(name, &mut message);
    message
}

/// Keys with what the values are as messages.
pub(super) fn entries<'a, V: 'a>(
    pairs: impl IntoIterator<Item = (&'a String, &'a V)>,
    fields: impl Fn(&V) -> Message,
) -> Vec<Entry<'a>> {
    pairs.into_iter().map(|(key, value)| Entry(key, fields(value))).collect()
}

impl Field for Word {
    fn add(&self, name: &str, message: &mut Message) {
        message.word(name, self.0);
    }
}

macro_rules! scalars {
    ($($type:ty => $method:ident,)*) => {
        $(impl Field for $type {
            fn add(&self, name: &str, message: &mut Message) {
                message.$method(name, self);
            }
        })*
    };
}

scalars! { u32 => word, i64 => word, bool => word, str => text, String => text, Vec<u8> => bytes, }

impl<T: Field> Field for [T] {
    fn add(&self, name: &str, message: &mut Message) {
        self.iter().for_each(|value| value.add(name, message));
    }
}

impl<T: Field> Field for Vec<T> {
    fn add(&self, name: &str, message: &mut Message) {
        self.as_slice().add(name, message);
    }
}

impl<T: Field> Field for Option<T> {
    fn add(&self, name: &str, message: &mut Message) {
        self.iter().for_each(|value| value.add(name, message));
    }
}
