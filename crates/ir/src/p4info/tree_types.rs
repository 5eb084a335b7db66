//! Types as trees of fields (`p4types.proto`).

use super::model::{NewType, SerializableEnum, TypeInfo, TypeSpec};
use super::tree::{Entry, Field, Fields, Named, entries, messages, one};
use super::txtpb::Message;

/// `P4DataTypeSpec`.
impl Fields for TypeSpec {
    fn fields(&self) -> Message {
        match self {
            TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::Varbit(_) => one("bitstring", &bitstring(self)),
            TypeSpec::Bool => one("bool", &Message::default()),
            TypeSpec::Tuple(members) => one("tuple", &one("members", members)),
            TypeSpec::Struct(name) => one("struct", &Named(name)),
            TypeSpec::Header(name) => one("header", &Named(name)),
            TypeSpec::HeaderUnion(name) => one("header_union", &Named(name)),
            TypeSpec::HeaderStack(name, size) => one("header_stack", &Stack("header", name, *size)),
            TypeSpec::HeaderUnionStack(name, size) => one("header_union_stack", &Stack("header_union", name, *size)),
            TypeSpec::Enum(name) => one("enum", &Named(name)),
            TypeSpec::Error => one("error", &Message::default()),
            TypeSpec::SerializableEnum(name) => one("serializable_enum", &Named(name)),
            TypeSpec::NewType(name) => one("new_type", &Named(name)),
        }
    }
}

/// `P4HeaderStackTypeSpec` and `P4HeaderUnionStackTypeSpec`: the field that names the type, the name, the elements.
struct Stack<'a>(&'static str, &'a str, u32);

impl Fields for Stack<'_> {
    fn fields(&self) -> Message {
        let mut message = one(self.0, &Named(self.1));
        self.2.add("size", &mut message);
        message
    }
}

/// `P4BitstringLikeTypeSpec`.
fn bitstring(ty: &TypeSpec) -> Message {
    match ty {
        TypeSpec::Bit(width) => one("bit", &one("bitwidth", width)),
        TypeSpec::Int(width) => one("int", &one("bitwidth", width)),
        TypeSpec::Varbit(width) => one("varbit", &one("max_bitwidth", width)),
        // A header holds nothing else; bits are what is sent.
        TypeSpec::Bool => one("bit", &one("bitwidth", &1u32)),
        _ => Message::default(),
    }
}

/// `P4NewTypeTranslation`: the URI and the width.
struct Translation<'a>(&'a String, Option<u32>);

/// A member of a serializable enumeration.
struct Value<'a>(&'a (String, Vec<u8>));

/// A member of a struct, a header or a header union: its name, and its type in a field of that name.
struct Member<'a>(&'a str, &'static str, Message);

impl Fields for Member<'_> {
    fn fields(&self) -> Message {
        let mut message = one("name", self.0);
        message.message(self.1, self.2.clone());
        message
    }
}

fn members<T>(list: &[(String, T)], field: &'static str, fields: impl Fn(&T) -> Message) -> Message {
    let members: Vec<_> = list.iter().map(|(name, value)| Member(name, field, fields(value))).collect();
    one("members", &members)
}

/// Names as members of an enumeration.
fn names(list: &[String]) -> Message {
    one("members", &list.iter().map(|name| Named(name)).collect::<Vec<_>>())
}

impl TypeInfo {
    /// `P4NewTypeSpec`.
    fn new_type(&self, name: &str, ty: &NewType) -> Message {
        let mut message = match ty {
            NewType::Original(spec) => one("original_type", spec),
            NewType::Translated(uri, width) => one("translated_type", &Translation(uri, *width)),
        };
        if let Some(annotations) = self.new_type_annotations.get(name) {
            annotations.plain.add("annotations", &mut message);
            annotations.structured.add("structured_annotations", &mut message);
        }
        message
    }
}

messages! {
    Translation<'_> |m| {
        uri: *m.0,
        sdn_bitwidth: m.1,
        sdn_string: m.1.is_none().then(Message::default),
    }
    Value<'_> |m| { name: m.0.0, value: m.0.1 }
    SerializableEnum |m| {
        underlying_type: one("bitwidth", &m.bitwidth),
        members: m.members.iter().map(Value).collect::<Vec<_>>(),
    }
    TypeInfo |m| {
        structs: entries(&m.structs, |list| members(list, "type_spec", TypeSpec::fields)),
        headers: entries(&m.headers, |list| members(list, "type_spec", bitstring)),
        header_unions: entries(&m.header_unions, |list| members(list, "header", |name| one("name", name))),
        enums: entries(&m.enums, |list| names(list)),
        error: m.error.as_ref().map(|names| one("members", names)),
        serializable_enums: entries(&m.serializable_enums, SerializableEnum::fields),
        new_types: m.new_types.iter().map(|(name, ty)| Entry(name, m.new_type(name, ty))).collect::<Vec<_>>(),
    }
}
