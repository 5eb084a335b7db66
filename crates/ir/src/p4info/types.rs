//! Types with names, as P4Info describes them.

use super::model::{NewType, SerializableEnum, TypeInfo, TypeSpec};
use crate::declared::DataType;
use crate::pipeline::{NamedType, Pipeline};
use crate::types::Type;
use num_bigint::BigUint;
use std::collections::HashMap;

/// The named types of a pipeline, and those that were shown so far.
pub(super) struct Types<'p> {
    pipeline: &'p Pipeline,
    named: HashMap<&'p str, &'p NamedType>,
    pub info: TypeInfo,
}

/// How a scalar is shown: width that the control plane sends, and name.
pub(super) struct Shown {
    pub bitwidth: u32,
    /// Set for a `type` only.
    pub type_name: Option<String>,
    /// Whether it is an enumeration without underlying type, and its name.
    pub enumeration: Option<String>,
}

/// Bytes in network order, as many as the width needs.
pub(super) fn bytes(value: &BigUint, width: u32) -> Vec<u8> {
    let len = width.div_ceil(8) as usize;
    let all = value.to_bytes_be();
    let mut padded = vec![0; len.saturating_sub(all.len())];
    padded.extend(&all[all.len().saturating_sub(len)..]);
    padded
}

impl<'p> Types<'p> {
    pub fn new(pipeline: &'p Pipeline) -> Self {
        let named = pipeline.named_types.iter().map(|(name, ty)| (name.as_str(), ty)).collect();
        Types { pipeline, named, info: TypeInfo::default() }
    }

    /// Shows the type of a key, parameter or metadata field, which may have a name of its own.
    pub fn scalar(&mut self, ty: Type, name: Option<&str>) -> Shown {
        let bitwidth = if ty == Type::Error { 0 } else { ty.width() };
        let plain = Shown { bitwidth, type_name: None, enumeration: None };
        let Some(name) = name else { return plain };
        let named = self.named.get(name).copied();
        self.show(name);
        match named {
            Some(NamedType::NewType(_, translation)) => {
                let bitwidth = match translation {
                    Some((_, width)) => width.unwrap_or(0),
                    None => bitwidth,
                };
                Shown { bitwidth, type_name: Some(name.to_string()), enumeration: None }
            }
            Some(NamedType::Enum(_)) => Shown { enumeration: Some(name.to_string()), ..plain },
            _ => plain,
        }
    }

    /// The name of an index type, if it is shown: only a `type` is.
    pub fn index(&mut self, name: Option<&str>) -> Option<String> {
        let name = name.filter(|n| matches!(self.named.get(n), Some(NamedType::NewType(..))))?;
        self.show(name);
        Some(name.to_string())
    }

    pub fn data(&mut self, ty: &DataType) -> TypeSpec {
        match ty {
            DataType::Bit(w) => TypeSpec::Bit(*w),
            DataType::Int(w) => TypeSpec::Int(*w),
            DataType::Varbit(w) => TypeSpec::Varbit(*w),
            DataType::Bool => TypeSpec::Bool,
            DataType::Error => {
                self.info.error.get_or_insert_with(|| self.pipeline.errors.clone());
                TypeSpec::Error
            }
            DataType::Tuple(members) => TypeSpec::Tuple(members.iter().map(|m| self.data(m)).collect()),
            DataType::Named(name) => {
                self.show(name);
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
                self.show(name);
                match self.named.get(name.as_str()) {
                    Some(NamedType::Union(_)) => TypeSpec::HeaderUnionStack(name.clone(), *size),
                    _ => TypeSpec::HeaderStack(name.clone(), *size),
                }
            }
        }
    }

    fn members(&mut self, members: &[(String, DataType)]) -> Vec<(String, TypeSpec)> {
        members.iter().map(|(name, ty)| (name.clone(), self.data(ty))).collect()
    }

    /// Describes a type, and those that it is made of.
    fn show(&mut self, name: &str) {
        let Some(ty) = self.named.get(name).copied() else { return };
        let key = name.to_string();
        // The entry is made before its members are looked at, so that a type which holds itself is looked at once.
        match ty {
            NamedType::Struct(members) if !self.info.structs.contains_key(name) => {
                self.info.structs.insert(key.clone(), Vec::new());
                let members = self.members(members);
                self.info.structs.insert(key, members);
            }
            NamedType::Header(members) if !self.info.headers.contains_key(name) => {
                self.info.headers.insert(key.clone(), Vec::new());
                let members = self.members(members);
                self.info.headers.insert(key, members);
            }
            NamedType::Union(members) if !self.info.header_unions.contains_key(name) => {
                self.info.header_unions.insert(key, members.clone());
                members.iter().for_each(|(_, header)| self.show(header));
            }
            NamedType::Enum(members) => {
                self.info.enums.insert(key, members.clone());
            }
            NamedType::SerializableEnum(width, members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), bytes(value, *width))).collect();
                self.info.serializable_enums.insert(key, SerializableEnum { bitwidth: *width, members });
            }
            NamedType::NewType(of, translation) if !self.info.new_types.contains_key(name) => {
                let placeholder = NewType::Original(TypeSpec::Bool);
                self.info.new_types.insert(key.clone(), placeholder);
                let original = NewType::Original(self.underlying(of));
                let shown = translation.as_ref().map_or(original, |(uri, w)| NewType::Translated(uri.clone(), *w));
                self.info.new_types.insert(key, shown);
                if let Some(annotations) = self.pipeline.type_annotations.get(name) {
                    let annotations = super::annotation::shown(annotations, &[]);
                    self.info.new_type_annotations.insert(name.to_string(), annotations);
                }
            }
            _ => {}
        }
    }

    /// What a `type` of a `type` of ... stands for in the end.
    fn underlying(&mut self, ty: &DataType) -> TypeSpec {
        let mut at = ty;
        // No longer than there are types.
        for _ in 0..self.named.len() {
            match at {
                DataType::Named(name) => match self.named.get(name.as_str()) {
                    Some(NamedType::NewType(of, _)) => at = of,
                    _ => break,
                },
                _ => break,
            }
        }
        self.data(at)
    }
}
