//! Conversion between the message `P4Info` and its fields by name ([`ir::p4info::to_fields`]).
//!
//! Both directions use the descriptors of `p4info.proto`, so that the code names only the fields
//! that [`ir::p4info`] cannot express.

use super::Unreadable;
use crate::proto::FILE_DESCRIPTOR_SET;
use ir::p4info::{MessageTree, MessageValue as Field};
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value,
};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Descriptor of `P4Info`. The descriptors are complete, because they are generated with the code.
pub(super) static P4INFO: LazyLock<MessageDescriptor> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("descriptors that the build made");
    pool.get_message_by_name("p4.config.v1.P4Info").expect("p4info.proto is among them")
});

/// Creates a message from its fields. A number larger than its field can hold becomes the largest
/// possible one. Fields that the message does not have are omitted.
pub(super) fn to_message(descriptor: &MessageDescriptor, fields: &MessageTree) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (name, value) in &fields.fields {
        let Some(field) = descriptor.get_field_by_name(name) else { continue };
        let Some(value) = to_value(&field.kind(), value) else { continue };
        match (message.get_field_mut(&field), value) {
            (Value::List(list), value) => list.push(value),
            (Value::Map(map), Value::Message(entry)) => {
                let part = |name| entry.get_field_by_name(name).map(|value| value.into_owned());
                if let (Some(Value::String(key)), Some(value)) = (part("key"), part("value")) {
                    map.insert(MapKey::String(key), value);
                }
            }
            (single, value) => *single = value,
        }
    }
    message
}

fn to_value(kind: &Kind, value: &Field) -> Option<Value> {
    Some(match (kind, value) {
        (Kind::Message(descriptor), Field::Message(fields)) => Value::Message(to_message(descriptor, fields)),
        (Kind::String, Field::Bytes(bytes)) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        (Kind::Bytes, Field::Bytes(bytes)) => Value::Bytes(bytes.clone().into()),
        (Kind::Enum(words), Field::Word(word)) => Value::EnumNumber(words.get_value_by_name(word)?.number()),
        (Kind::Bool, Field::Word(word)) => Value::Bool(word == "true"),
        (Kind::Uint32, Field::Word(word)) => Value::U32(word.parse().ok()?),
        (Kind::Int32, Field::Word(word)) => Value::I32(word.parse::<i64>().ok()?.try_into().unwrap_or(i32::MAX)),
        (Kind::Int64, Field::Word(word)) => Value::I64(word.parse().ok()?),
        _ => return None,
    })
}

/// Returns the fields of a message that have a meaning; `object` is the name of the enclosing
/// object.
pub(super) fn to_fields(object: &str, message: &DynamicMessage) -> Result<MessageTree, Unreadable> {
    let name = preamble_name(message);
    let object = name.as_deref().unwrap_or(object);
    check(object, message)?;
    let mut fields = MessageTree::default();
    for (field, value) in message.fields().filter(|(field, _)| !is_ignored(field)) {
        // Before the object's name is known, the name of its field is used.
        let object = if message.descriptor() == *P4INFO { field.name() } else { object };
        match value {
            Value::List(list) => {
                for value in list {
                    fields.fields.push((field.name().to_owned(), to_field(object, &field, value)?));
                }
            }
            Value::Map(map) => {
                let ordered: BTreeMap<&str, &Value> = map.iter().filter_map(|(k, v)| Some((k.as_str()?, v))).collect();
                for (key, value) in ordered {
                    let value = to_field(key, &map_value(&field), value)?;
                    let key = Field::Bytes(key.as_bytes().to_vec());
                    let entry = MessageTree { fields: vec![("key".to_owned(), key), ("value".to_owned(), value)] };
                    fields.fields.push((field.name().to_owned(), Field::Message(entry)));
                }
            }
            value => fields.fields.push((field.name().to_owned(), to_field(object, &field, value)?)),
        }
    }
    Ok(fields)
}

fn to_field(object: &str, field: &FieldDescriptor, value: &Value) -> Result<Field, Unreadable> {
    Ok(match (value, field.kind()) {
        (Value::Message(message), _) => Field::Message(to_fields(object, message)?),
        (Value::String(text), _) => Field::Bytes(text.clone().into_bytes()),
        (Value::Bytes(bytes), _) => Field::Bytes(bytes.to_vec()),
        (Value::EnumNumber(number), Kind::Enum(words)) => Field::Word(word(object, field, &words, *number)?),
        (value, _) => Field::Word(value.to_string()),
    })
}

fn map_value(field: &FieldDescriptor) -> FieldDescriptor {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field(),
        _ => field.clone(),
    }
}

/// Returns the name of an enumeration member. `UNSPECIFIED` counts as unknown.
fn word(object: &str, field: &FieldDescriptor, words: &EnumDescriptor, number: i32) -> Result<String, Unreadable> {
    let word = words.get_value(number).filter(|word| word.name() != "UNSPECIFIED");
    Ok(word.ok_or_else(|| cannot_be(object, field, number))?.name().to_owned())
}

/// Returns the name in the preamble of an object.
fn preamble_name(message: &DynamicMessage) -> Option<String> {
    let preamble = message.get_field_by_name("preamble")?;
    Some(preamble.as_message()?.get_field_by_name("name")?.as_str()?.to_owned()).filter(|name| !name.is_empty())
}

/// Returns whether [`ir::p4info`] omits the field, because it has no meaning for controllers:
/// source locations, annotations of types other than new types.
fn is_ignored(field: &FieldDescriptor) -> bool {
    let of_type = || {
        let message = field.parent_message().full_name();
        message.starts_with("p4.config.v1.P4") && message != "p4.config.v1.P4NewTypeSpec"
    };
    match field.name() {
        "annotation_locations" | "source_location" => true,
        "annotations" | "structured_annotations" => of_type(),
        _ => false,
    }
}

/// Fields that a pipeline never has, and that change the meaning.
const UNSUPPORTED: [&str; 4] = ["externs", "other_properties", "weights_disallowed", "other_match_type"];
/// Messages and choices without which a message has no meaning.
const REQUIRED: [&str; 9] = [
    "preamble",
    "spec",
    "type_spec",
    "header",
    "header_union",
    "underlying_type",
    "value",
    "representation",
    "sdn_type",
];

/// Checks the fields of a message, but not those of nested messages, against the capabilities of a
/// pipeline.
fn check(object: &str, message: &DynamicMessage) -> Result<(), Unreadable> {
    let descriptor = message.descriptor();
    for oneof in descriptor.oneofs().filter(|oneof| REQUIRED.contains(&oneof.name())) {
        if !oneof.fields().any(|field| message.has_field(&field)) {
            return Err(missing(object, named(descriptor.name(), oneof.name())));
        }
    }
    for field in descriptor.fields() {
        let is_set = message.has_field(&field);
        let is_message = matches!(field.kind(), Kind::Message(_)) && !field.is_list();
        if is_message && !is_set && field.containing_oneof().is_none() && REQUIRED.contains(&field.name()) {
            return Err(missing(object, named(descriptor.name(), field.name())));
        }
        let is_meter_type = descriptor.name() == "MeterSpec" && field.name() == "type";
        if is_set && (is_meter_type || UNSUPPORTED.contains(&field.name())) {
            return Err(Unreadable::Unsupported {
                place: object.to_owned(),
                field: named(descriptor.name(), field.name()),
            });
        }
        let is_unit = field.name() == "unit" && !is_set;
        match &*message.get_field(&field) {
            Value::I32(number) if *number < 0 && is_count(&field) => return Err(cannot_be(object, &field, *number)),
            Value::EnumNumber(number) if is_unit => return Err(cannot_be(object, &field, *number)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a field is a width in bits or the size of a stack.
fn is_count(field: &FieldDescriptor) -> bool {
    field.name().ends_with("bitwidth") || field.name() == "size" && field.parent_message().name().contains("Stack")
}

/// Returns the name of a field, prefixed with its message unless that is the object itself.
fn named(message: &str, field: &str) -> String {
    match message {
        "CounterSpec" | "MeterSpec" => format!("spec.{field}"),
        "Expression" | "KeyValuePair" => format!("structured_annotations.{field}"),
        _ => field.to_owned(),
    }
}

fn missing(object: &str, field: String) -> Unreadable {
    Unreadable::Missing { place: object.to_owned(), field }
}

fn cannot_be(object: &str, field: &FieldDescriptor, value: i32) -> Unreadable {
    let field = named(field.parent_message().name(), field.name());
    Unreadable::Number { place: object.to_owned(), field, value: value.into() }
}
