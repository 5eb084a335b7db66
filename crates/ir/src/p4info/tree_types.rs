//! Types as trees of fields (`p4types.proto`).

use super::model::{NewType, TypeInfo, TypeSpec};
use super::tree::{build, named, plain, structured};
use super::txtpb::Message;

/// `P4DataTypeSpec`.
pub(super) fn type_spec(ty: &TypeSpec) -> Message {
    let stack = |field: &str, name: &str, size: u32| {
        build(|m| {
            named(m, field, Some(name));
            m.word("size", size);
        })
    };
    build(|m| match ty {
        TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::Varbit(_) => m.message("bitstring", bitstring(ty)),
        TypeSpec::Bool => m.message("bool", Message::default()),
        TypeSpec::Tuple(members) => {
            let tuple = build(|m| members.iter().for_each(|t| m.message("members", type_spec(t))));
            m.message("tuple", tuple);
        }
        TypeSpec::Struct(name) => named(m, "struct", Some(name)),
        TypeSpec::Header(name) => named(m, "header", Some(name)),
        TypeSpec::HeaderUnion(name) => named(m, "header_union", Some(name)),
        TypeSpec::HeaderStack(name, size) => m.message("header_stack", stack("header", name, *size)),
        TypeSpec::HeaderUnionStack(name, size) => {
            m.message("header_union_stack", stack("header_union", name, *size));
        }
        TypeSpec::Enum(name) => named(m, "enum", Some(name)),
        TypeSpec::Error => m.message("error", Message::default()),
        TypeSpec::SerializableEnum(name) => named(m, "serializable_enum", Some(name)),
        TypeSpec::NewType(name) => named(m, "new_type", Some(name)),
    })
}

/// `P4BitstringLikeTypeSpec`.
fn bitstring(ty: &TypeSpec) -> Message {
    let width = |field: &str, w: u32| build(|m| m.word(field, w));
    build(|m| match ty {
        TypeSpec::Bit(w) => m.message("bit", width("bitwidth", *w)),
        TypeSpec::Int(w) => m.message("int", width("bitwidth", *w)),
        TypeSpec::Varbit(w) => m.message("varbit", width("max_bitwidth", *w)),
        // A header holds nothing else; bits are what is sent.
        TypeSpec::Bool => m.message("bit", width("bitwidth", 1)),
        _ => {}
    })
}

pub(super) fn type_info(info: &TypeInfo) -> Message {
    let entry = |key: &str, value: Message| {
        build(|m| {
            m.text("key", key);
            m.message("value", value);
        })
    };
    let member = |name: &str, field: &str, value: Message| {
        build(|m| {
            m.text("name", name);
            m.message(field, value);
        })
    };
    build(|m| {
        for (key, members) in &info.structs {
            let list = members.iter().map(|(n, t)| member(n, "type_spec", type_spec(t)));
            m.message("structs", entry(key, build(|m| list.for_each(|x| m.message("members", x)))));
        }
        for (key, members) in &info.headers {
            let list = members.iter().map(|(n, t)| member(n, "type_spec", bitstring(t)));
            m.message("headers", entry(key, build(|m| list.for_each(|x| m.message("members", x)))));
        }
        for (key, members) in &info.header_unions {
            let list = members.iter().map(|(n, h)| member(n, "header", build(|m| m.text("name", h))));
            m.message("header_unions", entry(key, build(|m| list.for_each(|x| m.message("members", x)))));
        }
        for (key, members) in &info.enums {
            let list = members.iter().map(|n| build(|m| m.text("name", n)));
            m.message("enums", entry(key, build(|m| list.for_each(|x| m.message("members", x)))));
        }
        if let Some(members) = &info.error {
            m.message("error", build(|m| members.iter().for_each(|e| m.text("members", e))));
        }
        for (key, ty) in &info.serializable_enums {
            let value = build(|m| {
                m.message("underlying_type", build(|m| m.word("bitwidth", ty.bitwidth)));
                for (name, value) in &ty.members {
                    m.message(
                        "members",
                        build(|m| {
                            m.text("name", name);
                            m.bytes("value", value);
                        }),
                    );
                }
            });
            m.message("serializable_enums", entry(key, value));
        }
        for (key, ty) in &info.new_types {
            let mut value = new_type(ty);
            if let Some(annotations) = info.new_type_annotations.get(key) {
                plain(&mut value, annotations);
                structured(&mut value, annotations);
            }
            m.message("new_types", entry(key, value));
        }
    })
}

fn new_type(ty: &NewType) -> Message {
    build(|m| match ty {
        NewType::Original(spec) => m.message("original_type", type_spec(spec)),
        NewType::Translated(uri, width) => {
            let translation = build(|m| {
                m.text("uri", uri);
                match width {
                    Some(width) => m.word("sdn_bitwidth", width),
                    None => m.message("sdn_string", Message::default()),
                }
            });
            m.message("translated_type", translation);
        }
    })
}
