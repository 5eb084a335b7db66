//! Named types, as P4Info describes them.

use super::model::{NewType, SerializableEnum, TypeInfo, TypeSpec};
use crate::declaration::DataType;
use crate::pipeline::{NamedType, Pipeline};
use crate::types::Type;
use num_bigint::BigUint;
use std::collections::HashMap;

/// The named types of a pipeline, and the descriptions of those referenced until now.
pub(super) struct TypeTable<'p> {
    pipeline: &'p Pipeline,
    named: HashMap<&'p str, &'p NamedType>,
    pub info: TypeInfo,
}

/// A scalar in P4Info: the width that the control plane sends, and the type name.
pub(super) struct ScalarInfo {
    pub bitwidth: u32,
    /// Set for a `type` only.
    pub type_name: Option<String>,
    /// Name of the enumeration, if it has no underlying type.
    pub enumeration: Option<String>,
}

/// Returns the value as bytes in network order, padded to `width` bits.
pub(super) fn padded_bytes(value: &BigUint, width: u32) -> Vec<u8> {
    let len = width.div_ceil(8) as usize;
    let all = value.to_bytes_be();
    let mut padded = vec![0; len.saturating_sub(all.len())];
    padded.extend(&all[all.len().saturating_sub(len)..]);
    padded
}

impl<'p> TypeTable<'p> {
    pub fn new(pipeline: &'p Pipeline) -> Self {
        let named = pipeline.named_types.iter().map(|(name, ty)| (name.as_str(), ty)).collect();
        TypeTable { pipeline, named, info: TypeInfo::default() }
    }

    /// Describes the type of a key, parameter or metadata field, and its named type if it has one.
    pub fn describe_scalar(&mut self, ty: Type, name: Option<&str>) -> ScalarInfo {
        let bitwidth = if ty == Type::Error { 0 } else { ty.width() };
        let plain = ScalarInfo { bitwidth, type_name: None, enumeration: None };
        let Some(name) = name else { return plain };
        let named = self.named.get(name).copied();
        self.describe_type(name);
        match named {
            Some(NamedType::NewType(_, translation)) => {
                let bitwidth = match translation {
                    Some((_, width)) => width.unwrap_or(0),
                    None => bitwidth,
                };
                ScalarInfo { bitwidth, type_name: Some(name.to_string()), enumeration: None }
            }
            Some(NamedType::Enum(_)) => ScalarInfo { enumeration: Some(name.to_string()), ..plain },
            _ => plain,
        }
    }

    /// Returns the name of an index type if it is a `type`, because P4Info includes no others.
    pub fn index_type_name(&mut self, name: Option<&str>) -> Option<String> {
        let name = name.filter(|n| matches!(self.named.get(n), Some(NamedType::NewType(..))))?;
        self.describe_type(name);
        Some(name.to_string())
    }

    /// Returns the description of a type, which refers to named types by name, and adds those to
    /// the type information.
    pub fn describe_data_type(&mut self, ty: &DataType) -> TypeSpec {
        match ty {
            DataType::Bit(width) => TypeSpec::Bit(*width),
            DataType::Int(width) => TypeSpec::Int(*width),
            DataType::Varbit(width) => TypeSpec::Varbit(*width),
            DataType::Bool => TypeSpec::Bool,
            DataType::Error => {
                self.info.error.get_or_insert_with(|| self.pipeline.errors.clone());
                TypeSpec::Error
            }
            DataType::Tuple(members) => TypeSpec::Tuple(members.iter().map(|m| self.describe_data_type(m)).collect()),
            DataType::Named(name) => {
                self.describe_type(name);
                let name = name.clone();
                match self.named.get(name.as_str()) {
                    Some(NamedType::Header(_)) => TypeSpec::Header(name),
                    Some(NamedType::Union(_)) => TypeSpec::HeaderUnion(name),
                    Some(NamedType::Enum(_)) => TypeSpec::Enum(name),
                    Some(NamedType::SerializableEnum(..)) => TypeSpec::SerializableEnum(name),
                    Some(NamedType::NewType(..)) => TypeSpec::NewType(name),
                    Some(NamedType::Struct(_)) | None => TypeSpec::Struct(name),
                }
            }
            DataType::Stack(name, size) => {
                self.describe_type(name);
                match self.named.get(name.as_str()) {
                    Some(NamedType::Union(_)) => TypeSpec::HeaderUnionStack(name.clone(), *size),
                    _ => TypeSpec::HeaderStack(name.clone(), *size),
                }
            }
        }
    }

    fn describe_members(&mut self, members: &[(String, DataType)]) -> Vec<(String, TypeSpec)> {
        members.iter().map(|(name, ty)| (name.clone(), self.describe_data_type(ty))).collect()
    }

    /// Describes a type and the types of its members. Types that are already described are left
    /// out.
    fn describe_type(&mut self, name: &str) {
        let Some(ty) = self.named.get(name).copied() else { return };
        let key = name.to_string();
        // The entry is inserted before its members are visited, so that a type that contains itself
        // is visited once.
        match ty {
            NamedType::Struct(members) if !self.info.structs.contains_key(name) => {
                self.info.structs.insert(key.clone(), Vec::new());
                let members = self.describe_members(members);
                self.info.structs.insert(key, members);
            }
            NamedType::Header(members) if !self.info.headers.contains_key(name) => {
                self.info.headers.insert(key.clone(), Vec::new());
                let members = self.describe_members(members);
                self.info.headers.insert(key, members);
            }
            NamedType::Union(members) if !self.info.header_unions.contains_key(name) => {
                self.info.header_unions.insert(key, members.clone());
                members.iter().for_each(|(_, header)| self.describe_type(header));
            }
            NamedType::Enum(members) => {
                self.info.enums.insert(key, members.clone());
            }
            NamedType::SerializableEnum(width, members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), padded_bytes(value, *width))).collect();
                self.info.serializable_enums.insert(key, SerializableEnum { bitwidth: *width, members });
            }
            NamedType::NewType(inner, translation) if !self.info.new_types.contains_key(name) => {
                let placeholder = NewType::Original(TypeSpec::Bool);
                self.info.new_types.insert(key.clone(), placeholder);
                let original = NewType::Original(self.underlying(inner));
                let described = translation.as_ref().map_or(original, |(uri, w)| NewType::Translated(uri.clone(), *w));
                self.info.new_types.insert(key, described);
                if let Some(annotations) = self.pipeline.type_annotations.get(name) {
                    let annotations = super::annotation::exported_annotations(annotations, &[]);
                    self.info.new_type_annotations.insert(name.to_string(), annotations);
                }
            }
            _ => {}
        }
    }

    /// Returns the type at the end of a chain of `type` definitions.
    fn underlying(&mut self, ty: &DataType) -> TypeSpec {
        let mut at = ty;
        // The number of types bounds the length of the chain.
        for _ in 0..self.named.len() {
            match at {
                DataType::Named(name) => match self.named.get(name.as_str()) {
                    Some(NamedType::NewType(of, _)) => at = of,
                    _ => break,
                },
                _ => break,
            }
        }
        self.describe_data_type(at)
    }
}
