//! Types as trees of fields (`p4types.proto`).

use super::model::{NewType, SerializableEnum, TypeInfo, TypeSpec};
use super::tree::{FieldValue, MapEntry, NameMessage, ToMessage, map_entries, messages, single_field};
use super::txtpb::MessageTree;

/// `P4DataTypeSpec`.
impl ToMessage for TypeSpec {
    /// Returns the message `P4DataTypeSpec`: one field, named after the kind of the type.
    fn to_message(&self) -> MessageTree {
        match self {
            TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::Varbit(_) => {
                single_field("bitstring", &bitstring_type(self))
            }
            TypeSpec::Bool => single_field("bool", &MessageTree::default()),
            TypeSpec::Tuple(members) => single_field("tuple", &single_field("members", members)),
            TypeSpec::Struct(name) => single_field("struct", &NameMessage(name)),
            TypeSpec::Header(name) => single_field("header", &NameMessage(name)),
            TypeSpec::HeaderUnion(name) => single_field("header_union", &NameMessage(name)),
            TypeSpec::HeaderStack(name, size) => single_field("header_stack", &StackTypeSpec("header", name, *size)),
            TypeSpec::HeaderUnionStack(name, size) => {
                single_field("header_union_stack", &StackTypeSpec("header_union", name, *size))
            }
            TypeSpec::Enum(name) => single_field("enum", &NameMessage(name)),
            TypeSpec::Error => single_field("error", &MessageTree::default()),
            TypeSpec::SerializableEnum(name) => single_field("serializable_enum", &NameMessage(name)),
            TypeSpec::NewType(name) => single_field("new_type", &NameMessage(name)),
        }
    }
}

/// `P4HeaderStackTypeSpec` and `P4HeaderUnionStackTypeSpec`: the field that names the type, the
/// name, the number of elements.
struct StackTypeSpec<'a>(&'static str, &'a str, u32);

impl ToMessage for StackTypeSpec<'_> {
    fn to_message(&self) -> MessageTree {
        let mut message = single_field(self.0, &NameMessage(self.1));
        self.2.add_field("size", &mut message);
        message
    }
}

/// `P4BitstringLikeTypeSpec`.
fn bitstring_type(ty: &TypeSpec) -> MessageTree {
    match ty {
        TypeSpec::Bit(width) => single_field("bit", &single_field("bitwidth", width)),
        TypeSpec::Int(width) => single_field("int", &single_field("bitwidth", width)),
        TypeSpec::Varbit(width) => single_field("varbit", &single_field("max_bitwidth", width)),
        // Headers contain only bit strings and bools; a bool is sent as one bit.
        TypeSpec::Bool => single_field("bit", &single_field("bitwidth", &1u32)),
        _ => MessageTree::default(),
    }
}

/// `P4NewTypeTranslation`: the URI and the width.
struct TypeTranslation<'a>(&'a String, Option<u32>);

/// A member of a serializable enumeration.
struct SerializableMember<'a>(&'a (String, Vec<u8>));

/// A member of a struct, a header or a header union: its name, the name of the field for its type,
/// and the type.
struct StructMember<'a>(&'a str, &'static str, MessageTree);

impl ToMessage for StructMember<'_> {
    fn to_message(&self) -> MessageTree {
        let mut message = single_field("name", self.0);
        message.message(self.1, self.2.clone());
        message
    }
}

fn struct_members<T>(list: &[(String, T)], field: &'static str, fields: impl Fn(&T) -> MessageTree) -> MessageTree {
    let members: Vec<_> = list.iter().map(|(name, value)| StructMember(name, field, fields(value))).collect();
    single_field("members", &members)
}

/// Creates a message with names as members of an enumeration.
fn enum_members(list: &[String]) -> MessageTree {
    single_field("members", &list.iter().map(|name| NameMessage(name)).collect::<Vec<_>>())
}

impl TypeInfo {
    /// `P4NewTypeSpec`.
    fn new_type(&self, name: &str, ty: &NewType) -> MessageTree {
        let mut message = match ty {
            NewType::Original(spec) => single_field("original_type", spec),
            NewType::Translated(uri, width) => single_field("translated_type", &TypeTranslation(uri, *width)),
        };
        if let Some(annotations) = self.new_type_annotations.get(name) {
            annotations.plain.add_field("annotations", &mut message);
            annotations.structured.add_field("structured_annotations", &mut message);
        }
        message
    }
}

messages! {
    TypeTranslation<'_> |m| {
        uri: *m.0,
        sdn_bitwidth: m.1,
        sdn_string: m.1.is_none().then(MessageTree::default),
    }
    SerializableMember<'_> |m| { name: m.0.0, value: m.0.1 }
    SerializableEnum |m| {
        underlying_type: single_field("bitwidth", &m.bitwidth),
        members: m.members.iter().map(SerializableMember).collect::<Vec<_>>(),
    }
    TypeInfo |m| {
        structs: map_entries(&m.structs, |list| struct_members(list, "type_spec", TypeSpec::to_message)),
        headers: map_entries(&m.headers, |list| struct_members(list, "type_spec", bitstring_type)),
        header_unions: map_entries(&m.header_unions, |list| struct_members(list, "header", |name| single_field("name", name))),
        enums: map_entries(&m.enums, |list| enum_members(list)),
        error: m.error.as_ref().map(|names| single_field("members", names)),
        serializable_enums: map_entries(&m.serializable_enums, SerializableEnum::to_message),
        new_types: m.new_types.iter().map(|(name, ty)| MapEntry(name, m.new_type(name, ty))).collect::<Vec<_>>(),
    }
}
