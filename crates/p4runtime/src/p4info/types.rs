//! Types (`p4types.proto`), both ways.

use super::{Unreadable, annotation, count, name_of, named, number};
use crate::proto::config::{self, p4_bitstring_like_type_spec as bits, p4_data_type_spec::TypeSpec as To};
use config::p4_new_type_spec::Representation;
use config::p4_new_type_translation::{SdnString, SdnType};
use ir::p4info::{Annotations, NewType, SerializableEnum, TypeInfo, TypeSpec};
use std::collections::BTreeMap;

pub(super) fn type_spec(ty: &TypeSpec) -> config::P4DataTypeSpec {
    let name = |name: &String| config::P4NamedType { name: name.clone() };
    let spec = match ty {
        TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::Varbit(_) => To::Bitstring(bitstring(ty)),
        TypeSpec::Bool => To::Bool(config::P4BoolType {}),
        TypeSpec::Tuple(members) => {
            To::Tuple(config::P4TupleTypeSpec { members: members.iter().map(type_spec).collect() })
        }
        TypeSpec::Struct(n) => To::Struct(name(n)),
        TypeSpec::Header(n) => To::Header(name(n)),
        TypeSpec::HeaderUnion(n) => To::HeaderUnion(name(n)),
        TypeSpec::HeaderStack(n, size) => {
            To::HeaderStack(config::P4HeaderStackTypeSpec { header: named(Some(n)), size: number(*size) })
        }
        TypeSpec::HeaderUnionStack(n, size) => To::HeaderUnionStack(config::P4HeaderUnionStackTypeSpec {
            header_union: named(Some(n)),
            size: number(*size),
        }),
        TypeSpec::Enum(n) => To::Enum(name(n)),
        TypeSpec::Error => To::Error(config::P4ErrorType {}),
        TypeSpec::SerializableEnum(n) => To::SerializableEnum(name(n)),
        TypeSpec::NewType(n) => To::NewType(name(n)),
    };
    config::P4DataTypeSpec { type_spec: Some(spec) }
}

fn bitstring(ty: &TypeSpec) -> config::P4BitstringLikeTypeSpec {
    let spec = match ty {
        TypeSpec::Bit(w) => Some(bits::TypeSpec::Bit(config::P4BitTypeSpec { bitwidth: number(*w) })),
        TypeSpec::Int(w) => Some(bits::TypeSpec::Int(config::P4IntTypeSpec { bitwidth: number(*w) })),
        TypeSpec::Varbit(w) => Some(bits::TypeSpec::Varbit(config::P4VarbitTypeSpec { max_bitwidth: number(*w) })),
        // Of what else a header's field can be, the message knows bits only.
        TypeSpec::Bool => Some(bits::TypeSpec::Bit(config::P4BitTypeSpec { bitwidth: 1 })),
        _ => None,
    };
    config::P4BitstringLikeTypeSpec { type_spec: spec, ..Default::default() }
}

/// Of all types that something names. None if there are none.
pub(super) fn type_info(info: &TypeInfo) -> Option<config::P4TypeInfo> {
    use config::{p4_enum_type_spec, p4_header_type_spec, p4_header_union_type_spec, p4_struct_type_spec};
    let structs = each(&info.structs, |members| {
        let member = |(name, ty): &(String, TypeSpec)| p4_struct_type_spec::Member {
            name: name.clone(),
            type_spec: Some(type_spec(ty)),
        };
        config::P4StructTypeSpec { members: members.iter().map(member).collect(), ..Default::default() }
    });
    let headers = each(&info.headers, |members| {
        let member = |(name, ty): &(String, TypeSpec)| p4_header_type_spec::Member {
            name: name.clone(),
            type_spec: Some(bitstring(ty)),
        };
        config::P4HeaderTypeSpec { members: members.iter().map(member).collect(), ..Default::default() }
    });
    let header_unions = each(&info.header_unions, |members| {
        let member = |(name, header): &(String, String)| p4_header_union_type_spec::Member {
            name: name.clone(),
            header: named(Some(header)),
        };
        config::P4HeaderUnionTypeSpec { members: members.iter().map(member).collect(), ..Default::default() }
    });
    let enums = each(&info.enums, |members| {
        let member = |name: &String| p4_enum_type_spec::Member { name: name.clone(), ..Default::default() };
        config::P4EnumTypeSpec { members: members.iter().map(member).collect(), ..Default::default() }
    });
    let mut new_types = each(&info.new_types, new_type);
    for (name, annotations) in &info.new_type_annotations {
        if let Some(message) = new_types.get_mut(name) {
            message.annotations = annotations.plain.clone();
            message.structured_annotations = annotation::structured(annotations);
        }
    }
    let message = config::P4TypeInfo {
        structs,
        headers,
        header_unions,
        enums,
        error: info.error.clone().map(|members| config::P4ErrorTypeSpec { members }),
        serializable_enums: each(&info.serializable_enums, serializable_enum),
        new_types,
    };
    (message != config::P4TypeInfo::default()).then_some(message)
}

fn each<T, M>(map: &BTreeMap<String, T>, message: impl Fn(&T) -> M) -> BTreeMap<String, M> {
    map.iter().map(|(name, ty)| (name.clone(), message(ty))).collect()
}

fn serializable_enum(ty: &SerializableEnum) -> config::P4SerializableEnumTypeSpec {
    let member = |(name, value): &(String, Vec<u8>)| config::p4_serializable_enum_type_spec::Member {
        name: name.clone(),
        value: value.clone().into(),
        ..Default::default()
    };
    config::P4SerializableEnumTypeSpec {
        underlying_type: Some(config::P4BitTypeSpec { bitwidth: number(ty.bitwidth) }),
        members: ty.members.iter().map(member).collect(),
        ..Default::default()
    }
}

fn new_type(ty: &NewType) -> config::P4NewTypeSpec {
    let representation = match ty {
        NewType::Original(ty) => Representation::OriginalType(type_spec(ty)),
        NewType::Translated(uri, width) => Representation::TranslatedType(config::P4NewTypeTranslation {
            uri: uri.clone(),
            sdn_type: Some(match width {
                Some(width) => SdnType::SdnBitwidth(number(*width)),
                None => SdnType::SdnString(SdnString {}),
            }),
        }),
    };
    config::P4NewTypeSpec { representation: Some(representation), ..Default::default() }
}

fn missing(place: &str, field: &'static str) -> Unreadable {
    Unreadable::Missing { place: place.to_owned(), field }
}

pub(super) fn read_type_spec(place: &str, message: Option<&config::P4DataTypeSpec>) -> Result<TypeSpec, Unreadable> {
    let spec = message.and_then(|m| m.type_spec.as_ref()).ok_or_else(|| missing(place, "type_spec"))?;
    Ok(match spec {
        To::Bitstring(bits) => read_bitstring(place, Some(bits))?,
        To::Bool(_) => TypeSpec::Bool,
        To::Tuple(tuple) => {
            let members = tuple.members.iter().map(|ty| read_type_spec(place, Some(ty)));
            TypeSpec::Tuple(members.collect::<Result<_, _>>()?)
        }
        To::Struct(named) => TypeSpec::Struct(named.name.clone()),
        To::Header(named) => TypeSpec::Header(named.name.clone()),
        To::HeaderUnion(named) => TypeSpec::HeaderUnion(named.name.clone()),
        To::HeaderStack(stack) => {
            let name = name_of(&stack.header).ok_or_else(|| missing(place, "header"))?;
            TypeSpec::HeaderStack(name, count(place, "size", stack.size)?)
        }
        To::HeaderUnionStack(stack) => {
            let name = name_of(&stack.header_union).ok_or_else(|| missing(place, "header_union"))?;
            TypeSpec::HeaderUnionStack(name, count(place, "size", stack.size)?)
        }
        To::Enum(named) => TypeSpec::Enum(named.name.clone()),
        To::Error(_) => TypeSpec::Error,
        To::SerializableEnum(named) => TypeSpec::SerializableEnum(named.name.clone()),
        To::NewType(named) => TypeSpec::NewType(named.name.clone()),
    })
}

fn read_bitstring(place: &str, message: Option<&config::P4BitstringLikeTypeSpec>) -> Result<TypeSpec, Unreadable> {
    match message.and_then(|m| m.type_spec.as_ref()) {
        Some(bits::TypeSpec::Bit(ty)) => Ok(TypeSpec::Bit(count(place, "bitwidth", ty.bitwidth)?)),
        Some(bits::TypeSpec::Int(ty)) => Ok(TypeSpec::Int(count(place, "bitwidth", ty.bitwidth)?)),
        Some(bits::TypeSpec::Varbit(ty)) => Ok(TypeSpec::Varbit(count(place, "max_bitwidth", ty.max_bitwidth)?)),
        None => Err(missing(place, "type_spec")),
    }
}

pub(super) fn read_type_info(message: &Option<config::P4TypeInfo>) -> Result<TypeInfo, Unreadable> {
    let Some(message) = message else { return Ok(TypeInfo::default()) };
    let structs = read_each(&message.structs, |place, ty| {
        let member = |m: &config::p4_struct_type_spec::Member| {
            Ok((m.name.clone(), read_type_spec(place, m.type_spec.as_ref())?))
        };
        ty.members.iter().map(member).collect()
    })?;
    let headers = read_each(&message.headers, |place, ty| {
        let member = |m: &config::p4_header_type_spec::Member| {
            Ok((m.name.clone(), read_bitstring(place, m.type_spec.as_ref())?))
        };
        ty.members.iter().map(member).collect()
    })?;
    let header_unions = read_each(&message.header_unions, |place, ty| {
        let member = |m: &config::p4_header_union_type_spec::Member| {
            Ok((m.name.clone(), name_of(&m.header).ok_or_else(|| missing(place, "header"))?))
        };
        ty.members.iter().map(member).collect()
    })?;
    let mut new_type_annotations = BTreeMap::new();
    for (name, ty) in &message.new_types {
        let read = annotation::read(name, &ty.annotations, &ty.structured_annotations)?;
        if read != Annotations::default() {
            new_type_annotations.insert(name.clone(), read);
        }
    }
    Ok(TypeInfo {
        structs,
        headers,
        header_unions,
        enums: each(&message.enums, |ty| ty.members.iter().map(|m| m.name.clone()).collect()),
        error: message.error.as_ref().map(|ty| ty.members.clone()),
        serializable_enums: read_each(&message.serializable_enums, read_serializable_enum)?,
        new_types: read_each(&message.new_types, read_new_type)?,
        new_type_annotations,
    })
}

fn read_each<M, T>(
    map: &BTreeMap<String, M>,
    read: impl Fn(&str, &M) -> Result<T, Unreadable>,
) -> Result<BTreeMap<String, T>, Unreadable> {
    map.iter().map(|(name, message)| Ok((name.clone(), read(name, message)?))).collect()
}

fn read_serializable_enum(
    place: &str,
    message: &config::P4SerializableEnumTypeSpec,
) -> Result<SerializableEnum, Unreadable> {
    let underlying = message.underlying_type.as_ref().ok_or_else(|| missing(place, "underlying_type"))?;
    Ok(SerializableEnum {
        bitwidth: count(place, "bitwidth", underlying.bitwidth)?,
        members: message.members.iter().map(|m| (m.name.clone(), m.value.to_vec())).collect(),
    })
}

fn read_new_type(place: &str, message: &config::P4NewTypeSpec) -> Result<NewType, Unreadable> {
    match &message.representation {
        Some(Representation::OriginalType(ty)) => Ok(NewType::Original(read_type_spec(place, Some(ty))?)),
        Some(Representation::TranslatedType(translation)) => {
            let width = match &translation.sdn_type {
                Some(SdnType::SdnBitwidth(width)) => Some(count(place, "sdn_bitwidth", *width)?),
                Some(SdnType::SdnString(_)) => None,
                None => return Err(missing(place, "sdn_type")),
            };
            Ok(NewType::Translated(translation.uri.clone(), width))
        }
        None => Err(missing(place, "representation")),
    }
}
