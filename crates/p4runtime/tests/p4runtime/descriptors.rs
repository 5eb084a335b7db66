//! Compares proto/ with the descriptors in PyPI's packages in both directions: names, numbers,
//! types, calls.

use crate::python;
use p4runtime::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
};
use std::collections::BTreeSet;

/// Number of lines of each kind in 1.5.0. Other numbers mean that the test missed some.
const EXPECTED: [(&str, usize); 6] =
    [("file", 6), ("message", 140), ("field", 451), ("enum", 15), ("value", 81), ("call", 6)];

#[test]
fn the_interface_is_that_of_the_p4runtime_package() {
    let theirs = python("descriptors.py", &[]);
    let theirs: BTreeSet<&str> = theirs.lines().collect();
    let ours = ours();
    let ours: BTreeSet<&str> = ours.iter().map(String::as_str).collect();
    for (kind, expected) in EXPECTED {
        let count = |lines: &BTreeSet<&str>| lines.iter().filter(|l| l.split(' ').next() == Some(kind)).count();
        assert_eq!(
            (count(&ours), count(&theirs)),
            (expected, expected),
            "{kind}: ours, theirs\n{}",
            apart(&ours, &theirs)
        );
    }
    assert_eq!(ours.len(), EXPECTED.iter().map(|(_, n)| n).sum::<usize>());
    assert!(ours == theirs, "{}", apart(&ours, &theirs));
}

fn apart(ours: &BTreeSet<&str>, theirs: &BTreeSet<&str>) -> String {
    let only = |mark: &str, a: &BTreeSet<&str>, b: &BTreeSet<&str>| {
        a.difference(b).map(|line| format!("{mark} {line}\n")).collect::<String>()
    };
    only("only ours:  ", ours, theirs) + &only("only theirs:", theirs, ours)
}

/// Returns a line for each message, field, enum value and call, in the format of
/// tests/p4runtime/descriptors.py.
fn ours() -> Vec<String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("what the compiler wrote can be read");
    let mut lines = Vec::new();
    // Only Any is used of google.protobuf, and it comes with the library. Packages terrace.* are
    // our own.
    let of_others = |package: &str| package != "google.protobuf" && !package.starts_with("terrace.");
    for file in set.file.iter().filter(|file| of_others(file.package())) {
        lines.push(format!("file {} {} {}", file.name(), file.package(), file.syntax()));
        file.message_type.iter().for_each(|m| message(file.package(), m, &mut lines));
        file.enum_type.iter().for_each(|e| enumeration(file.package(), e, &mut lines));
        file.service.iter().for_each(|s| service(file.package(), s, &mut lines));
    }
    lines
}

fn message(scope: &str, message: &DescriptorProto, lines: &mut Vec<String>) {
    let name = format!("{scope}.{}", message.name());
    let is_map = message.options.as_ref().is_some_and(|o| o.map_entry());
    lines.push(format!("message {name} map={is_map}"));
    message.field.iter().for_each(|f| lines.push(field(&name, message, f)));
    message.nested_type.iter().for_each(|m| self::message(&name, m, lines));
    message.enum_type.iter().for_each(|e| enumeration(&name, e, lines));
}

fn field(scope: &str, message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let label = match field.label() {
        Label::Optional => "optional",
        Label::Repeated => "repeated",
        Label::Required => "required",
    };
    let scalar = match field.r#type() {
        Type::Message => "message",
        Type::Enum => "enum",
        Type::Bytes => "bytes",
        Type::String => "string",
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Uint32 => "uint32",
        Type::Uint64 => "uint64",
        other => other.as_str_name(),
    };
    let target = if field.type_name.is_some() { field.type_name().trim_start_matches('.') } else { "-" };
    let oneof = field.oneof_index.map_or("-", |index| message.oneof_decl[index as usize].name());
    let options = field.options.clone().unwrap_or_default();
    let packed = options.packed.map_or("default".to_owned(), |packed| packed.to_string());
    let (name, number, json, deprecated) = (field.name(), field.number(), field.json_name(), options.deprecated());
    format!(
        "field {scope}.{name} {number} {label} {scalar} {target} oneof={oneof} json={json} packed={packed} deprecated={deprecated}"
    )
}

fn enumeration(scope: &str, enumeration: &EnumDescriptorProto, lines: &mut Vec<String>) {
    let name = format!("{scope}.{}", enumeration.name());
    let alias = enumeration.options.as_ref().is_some_and(|o| o.allow_alias());
    lines.push(format!("enum {name} alias={alias}"));
    lines.extend(enumeration.value.iter().map(|v| format!("value {name}.{} {}", v.name(), v.number())));
}

fn service(scope: &str, service: &ServiceDescriptorProto, lines: &mut Vec<String>) {
    for method in &service.method {
        let name = format!("{scope}.{}.{}", service.name(), method.name());
        let (input, output) =
            (method.input_type().trim_start_matches('.'), method.output_type().trim_start_matches('.'));
        let (client, server) = (method.client_streaming(), method.server_streaming());
        lines.push(format!("call {name} {input} {output} client_stream={client} server_stream={server}"));
    }
}
