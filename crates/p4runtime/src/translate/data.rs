//! `P4Data`: values of any type, to their leaves and back (section "Representation of Arbitrary P4
//! Types").
//!
//! Leaves have no validity: headers in them are valid. Unions are rejected, because at most one of
//! their members is valid; `varbit`s are rejected, because they have a length of their own.

use super::scalar::words;
use super::schema::Schema;
use crate::proto::v1;
use crate::proto::v1::p4_data::Data as D;
use crate::{Code, P4RuntimeError, values};
use entries::big_from_words;
use ir::Type;
use ir::p4info::{NewType, TypeInfo, TypeSpec};
use num_bigint::BigUint;

/// Traversal of a type in parallel with its leaves.
struct DataTraversal<'a> {
    name: &'a str,
    types: &'a TypeInfo,
    leaves: std::slice::Iter<'a, Type>,
}

impl Schema {
    /// Decodes a value to its leaves.
    pub(super) fn decode_leaves(
        &self,
        name: &str,
        spec: &TypeSpec,
        leaves: &[Type],
        data: &v1::P4Data,
    ) -> Result<Vec<BigUint>, P4RuntimeError> {
        let mut walk = DataTraversal { name, types: self.types(), leaves: leaves.iter() };
        let mut out = Vec::with_capacity(leaves.len());
        walk.decode(spec, data, &mut out)?;
        Ok(out)
    }

    /// Encodes a value from its leaves.
    pub(super) fn encode_data(
        &self,
        name: &str,
        spec: &TypeSpec,
        leaves: &[Type],
        values: &[BigUint],
    ) -> Result<v1::P4Data, P4RuntimeError> {
        let mut walk = DataTraversal { name, types: self.types(), leaves: leaves.iter() };
        walk.encode(spec, &mut values.iter())
    }
}

impl<'a> DataTraversal<'a> {
    fn leaf(&mut self) -> Result<Type, P4RuntimeError> {
        let none = || {
            P4RuntimeError::new(Code::Internal, format!("{}: its type has more parts than it has leaves", self.name))
        };
        self.leaves.next().copied().ok_or_else(none)
    }

    fn struct_members(&self, name: &str) -> &'a [(String, TypeSpec)] {
        self.types.structs.get(name).map_or(&[], Vec::as_slice)
    }

    fn header_members(&self, name: &str) -> &'a [(String, TypeSpec)] {
        self.types.headers.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of bit strings of a header; nested structs are flattened.
    fn bitstrings(&self, members: &[(String, TypeSpec)]) -> usize {
        let one = |(_, spec): &(String, TypeSpec)| match spec {
            TypeSpec::Struct(name) => self.bitstrings(self.struct_members(name)),
            _ => 1,
        };
        members.iter().map(one).sum()
    }

    fn wrong(&self, expected: &str) -> P4RuntimeError {
        P4RuntimeError::invalid(format!("{}: the data is not of its type: {expected} is needed", self.name))
    }

    fn no_unions(&self) -> P4RuntimeError {
        P4RuntimeError::unimplemented(format!("{}: values with header unions are not supported", self.name))
    }

    fn members(
        &mut self,
        specs: &[&TypeSpec],
        given: &[v1::P4Data],
        out: &mut Vec<BigUint>,
    ) -> Result<(), P4RuntimeError> {
        if specs.len() != given.len() {
            return Err(self.wrong(&format!("{} members instead of {}", specs.len(), given.len())));
        }
        specs.iter().zip(given).try_for_each(|(spec, data)| self.decode(spec, data, out))
    }

    fn bits(&mut self, bytes: &[u8]) -> Result<BigUint, P4RuntimeError> {
        let leaf = self.leaf()?;
        let width = leaf.width();
        let words = if leaf.is_signed() { values::decode_signed(bytes, width) } else { values::decode(bytes, width) };
        let words = words.map_err(|error| P4RuntimeError::new(Code::OutOfRange, format!("{}: {error}", self.name)))?;
        Ok(big_from_words(&words))
    }

    fn header(&mut self, name: &str, given: &v1::P4Header, out: &mut Vec<BigUint>) -> Result<(), P4RuntimeError> {
        if !given.is_valid {
            return Err(P4RuntimeError::unimplemented(format!(
                "{}: headers in it are always valid; give {name}'s fields, zeros if need be",
                self.name
            )));
        }
        let count = self.bitstrings(self.header_members(name));
        if given.bitstrings.len() != count {
            return Err(self.wrong(&format!("header {name} with {count} fields instead of {}", given.bitstrings.len())));
        }
        given.bitstrings.iter().try_for_each(|bytes| {
            out.push(self.bits(bytes)?);
            Ok(())
        })
    }

    fn ordinal(&mut self, name: &str, known: &[String], out: &mut Vec<BigUint>) -> Result<(), P4RuntimeError> {
        self.leaf()?;
        let Some(at) = known.iter().position(|member| member == name) else {
            return Err(self.wrong(&format!("`{name}` is not known, one of {}", known.join(", "))));
        };
        out.push(BigUint::from(at));
        Ok(())
    }

    /// Decodes a value of a type and appends its leaves to `out`, in the order of declaration.
    fn decode(&mut self, spec: &TypeSpec, data: &v1::P4Data, out: &mut Vec<BigUint>) -> Result<(), P4RuntimeError> {
        let types = self.types;
        match (spec, &data.data) {
            (TypeSpec::Bit(_) | TypeSpec::Int(_), Some(D::Bitstring(bytes))) => out.push(self.bits(bytes)?),
            (TypeSpec::SerializableEnum(_), Some(D::EnumValue(bytes))) => out.push(self.bits(bytes)?),
            (TypeSpec::Bool, Some(D::Bool(value))) => {
                self.leaf()?;
                out.push(BigUint::from(u8::from(*value)));
            }
            (TypeSpec::Tuple(specs), Some(D::Tuple(given))) => {
                self.members(&specs.iter().collect::<Vec<_>>(), &given.members, out)?;
            }
            (TypeSpec::Struct(name), Some(D::Struct(given))) => {
                let specs: Vec<&TypeSpec> = self.struct_members(name).iter().map(|(_, spec)| spec).collect();
                self.members(&specs, &given.members, out)?;
            }
            (TypeSpec::Header(name), Some(D::Header(given))) => self.header(name, given, out)?,
            (TypeSpec::HeaderStack(name, size), Some(D::HeaderStack(given))) => {
                if given.entries.len() != *size as usize {
                    return Err(self.wrong(&format!("{size} headers instead of {}", given.entries.len())));
                }
                given.entries.iter().try_for_each(|entry| self.header(name, entry, out))?;
            }
            (TypeSpec::Enum(name), Some(D::Enum(member))) => {
                self.ordinal(member, types.enums.get(name).map_or(&[], Vec::as_slice), out)?;
            }
            (TypeSpec::Error, Some(D::Error(member))) => {
                self.ordinal(member, types.error.as_deref().unwrap_or(&[]), out)?;
            }
            (TypeSpec::NewType(name), given) => match (types.new_types.get(name), given) {
                (Some(NewType::Original(spec)), _) => self.decode(spec, data, out)?,
                (Some(NewType::Translated(..)), Some(D::Bitstring(bytes))) => out.push(self.bits(bytes)?),
                _ => return Err(self.wrong("a bit string")),
            },
            (TypeSpec::HeaderUnion(_) | TypeSpec::HeaderUnionStack(..), _) => return Err(self.no_unions()),
            (TypeSpec::Varbit(_), _) => return Err(self.no_varbits()),
            (spec, _) => return Err(self.wrong(kind_name(spec))),
        }
        Ok(())
    }

    fn no_varbits(&self) -> P4RuntimeError {
        P4RuntimeError::unimplemented(format!("{}: varbit values are not supported", self.name))
    }

    fn bytes(&mut self, given: &mut std::slice::Iter<'_, BigUint>) -> Result<bytes::Bytes, P4RuntimeError> {
        let (leaf, value) = (self.leaf()?, self.value(given)?);
        let words = words(value, leaf.width());
        Ok(if leaf.is_signed() { values::encode_signed(&words, leaf.width()) } else { values::encode(&words) })
    }

    fn value<'v>(&self, given: &mut std::slice::Iter<'v, BigUint>) -> Result<&'v BigUint, P4RuntimeError> {
        let none = || P4RuntimeError::new(Code::Internal, format!("{}: it has fewer values than its type", self.name));
        given.next().ok_or_else(none)
    }

    fn name_of(
        &mut self,
        known: &[String],
        given: &mut std::slice::Iter<'_, BigUint>,
    ) -> Result<String, P4RuntimeError> {
        self.leaf()?;
        let at = usize::try_from(self.value(given)?).ok();
        let none = || P4RuntimeError::new(Code::Internal, format!("{}: a value has no name", self.name));
        at.and_then(|at| known.get(at)).cloned().ok_or_else(none)
    }

    fn header_data(
        &mut self,
        name: &str,
        given: &mut std::slice::Iter<'_, BigUint>,
    ) -> Result<v1::P4Header, P4RuntimeError> {
        let count = self.bitstrings(self.header_members(name));
        let bitstrings: Result<_, _> = (0..count).map(|_| self.bytes(given)).collect();
        Ok(v1::P4Header { is_valid: true, bitstrings: bitstrings? })
    }

    /// Encodes a value of a type from its leaves, which it takes from `leaves` in order.
    fn encode(
        &mut self,
        spec: &TypeSpec,
        leaves: &mut std::slice::Iter<'_, BigUint>,
    ) -> Result<v1::P4Data, P4RuntimeError> {
        let types = self.types;
        let data = match spec {
            TypeSpec::Bit(_) | TypeSpec::Int(_) => D::Bitstring(self.bytes(leaves)?),
            TypeSpec::SerializableEnum(_) => D::EnumValue(self.bytes(leaves)?),
            TypeSpec::Bool => {
                self.leaf()?;
                D::Bool(*self.value(leaves)? != BigUint::ZERO)
            }
            TypeSpec::Tuple(specs) => {
                let members: Result<_, _> = specs.iter().map(|spec| self.encode(spec, leaves)).collect();
                D::Tuple(v1::P4StructLike { members: members? })
            }
            TypeSpec::Struct(name) => {
                let members: Result<_, _> =
                    self.struct_members(name).iter().map(|(_, spec)| self.encode(spec, leaves)).collect();
                D::Struct(v1::P4StructLike { members: members? })
            }
            TypeSpec::Header(name) => D::Header(self.header_data(name, leaves)?),
            TypeSpec::HeaderStack(name, size) => {
                let entries: Result<_, _> = (0..*size).map(|_| self.header_data(name, leaves)).collect();
                D::HeaderStack(v1::P4HeaderStack { entries: entries? })
            }
            TypeSpec::Enum(name) => D::Enum(self.name_of(types.enums.get(name).map_or(&[], Vec::as_slice), leaves)?),
            TypeSpec::Error => D::Error(self.name_of(types.error.as_deref().unwrap_or(&[]), leaves)?),
            TypeSpec::NewType(name) => match types.new_types.get(name) {
                Some(NewType::Original(spec)) => return self.encode(spec, leaves),
                Some(NewType::Translated(..)) | None => D::Bitstring(self.bytes(leaves)?),
            },
            TypeSpec::HeaderUnion(_) | TypeSpec::HeaderUnionStack(..) => return Err(self.no_unions()),
            TypeSpec::Varbit(_) => return Err(self.no_varbits()),
        };
        Ok(v1::P4Data { data: Some(data) })
    }
}

fn kind_name(spec: &TypeSpec) -> &'static str {
    match spec {
        TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::NewType(_) => "a bit string",
        TypeSpec::Varbit(_) => "a varbit",
        TypeSpec::Bool => "a bool",
        TypeSpec::Tuple(_) => "a tuple",
        TypeSpec::Struct(_) => "a struct",
        TypeSpec::Header(_) => "a header",
        TypeSpec::HeaderUnion(_) => "a header union",
        TypeSpec::HeaderStack(..) => "a header stack",
        TypeSpec::HeaderUnionStack(..) => "a stack of header unions",
        TypeSpec::Enum(_) => "an enum member's name",
        TypeSpec::Error => "an error's name",
        TypeSpec::SerializableEnum(_) => "an enum's value",
    }
}
