//! Control-plane types for P4Info: data types, named types, controller headers, field lists.

use super::lowering::Lowering;
use super::names;
use super::storage::Storage;
use super::type_layout::{LayoutMember, TypeLayout};
use super::value::wrap_to_width;
use crate::ast::{self, Annotation, StructKind};
use crate::diag::Diagnostic;
use crate::hir::{self, Ty, TyKind};
use crate::lex::{Tok, parse_integer};
use ir::{DataType, NamedType, Param};
use num_bigint::BigUint;

impl Lowering<'_> {
    /// Returns the P4Runtime description of a type and records named types. A type that P4Runtime
    /// cannot describe gives an empty tuple.
    pub(super) fn data_type(&mut self, ty: Ty) -> DataType {
        let ty = self.substitute_scope_params(ty);
        if self.is_too_large(ty) {
            return DataType::Tuple(Vec::new());
        }
        match self.types.kind(ty).clone() {
            TyKind::Bool => DataType::Bool,
            TyKind::Bit(w) => DataType::Bit(w),
            TyKind::Int(w) => DataType::Int(w),
            TyKind::Varbit(w) => DataType::Varbit(w),
            TyKind::Error => DataType::Error,
            TyKind::Tuple(types) => DataType::Tuple(types.into_iter().map(|t| self.data_type(t)).collect()),
            TyKind::Stack(element_ty, size) => match self.data_type(element_ty) {
                DataType::Named(name) => DataType::Stack(name, size),
                unnamed => unnamed,
            },
            TyKind::Struct(id, _) => self.named_struct(id, ty),
            TyKind::Enum(id) => self.named_enum(id),
            TyKind::NewType(id) => self.new_type(id),
            _ => DataType::Tuple(Vec::new()),
        }
    }

    /// Records the type of a key or parameter if it is a `type` or enumeration.
    pub(super) fn record_named_type_of(&mut self, ty: Ty) {
        let ty = self.substitute_scope_params(ty);
        if matches!(self.types.kind(ty), TyKind::NewType(_) | TyKind::Enum(_)) {
            self.data_type(ty);
        }
    }

    fn record_named_type(&mut self, name: &str, make: impl FnOnce(&mut Self) -> NamedType) -> DataType {
        if self.named_types.insert(name.to_string()) {
            let named = make(self);
            self.pipeline.named_types.push((name.to_string(), named));
        }
        DataType::Named(name.to_string())
    }

    /// Records a struct, header or union as a named type of P4Info, with its fields, and returns
    /// the reference by name. `ty` is the type with its type arguments.
    fn named_struct(&mut self, id: hir::StructId, ty: Ty) -> DataType {
        let decl = &self.hir.structs[id.index()];
        let name = names::control_plane_name("", &decl.name, &decl.annotations);
        let field_names: Vec<String> =
            decl.fields.iter().map(|f| names::control_plane_name("", &f.name, &f.annotations)).collect();
        let layout = self.layout(ty);
        self.record_named_type(&name, |lower| match (decl.kind, layout) {
            (StructKind::Header, _) => NamedType::Header(lower.flat_header(ty)),
            (StructKind::HeaderUnion, TypeLayout::Union(members)) => {
                let member = |(name, m): (String, &LayoutMember)| match lower.data_type(m.ty) {
                    DataType::Named(ty) => (name, ty),
                    _ => (name, String::new()),
                };
                NamedType::Union(field_names.into_iter().zip(members.iter()).map(member).collect())
            }
            (_, TypeLayout::Struct(members)) => {
                let member = |(name, m): (String, &LayoutMember)| (name, lower.data_type(m.ty));
                NamedType::Struct(field_names.into_iter().zip(members.iter()).map(member).collect())
            }
            _ => NamedType::Struct(Vec::new()),
        })
    }

    fn flat_header(&mut self, ty: Ty) -> Vec<(String, DataType)> {
        let TypeLayout::Header(header, _) = self.layout(ty) else { return Vec::new() };
        let fields = self.pipeline.header_types[header].fields.clone();
        let field = |f: ir::HeaderField| {
            let ty = match f.ty {
                ir::Type::Int(w) => DataType::Int(w),
                ir::Type::Varbit(w) => DataType::Varbit(w),
                other => DataType::Bit(other.width()),
            };
            (f.name, ty)
        };
        fields.into_iter().map(field).collect()
    }

    pub(super) fn named_enum(&mut self, id: hir::EnumId) -> DataType {
        let decl = &self.hir.enums[id.index()];
        let name = names::control_plane_name("", &decl.name, &decl.annotations);
        self.record_named_type(&name, |lower| match decl.underlying {
            None => NamedType::Enum(decl.members.iter().map(|(name, _)| name.to_string()).collect()),
            Some(of) => {
                let width = match lower.layout(of) {
                    TypeLayout::Scalar(ty) => ty.width(),
                    _ => 0,
                };
                let bits = |value: &Option<num_bigint::BigInt>| match value {
                    Some(value) => wrap_to_width(value, width),
                    None => BigUint::default(),
                };
                let member = |(name, value): &(std::sync::Arc<str>, _)| (name.to_string(), bits(value));
                NamedType::SerializableEnum(width, decl.members.iter().map(member).collect())
            }
        })
    }

    fn new_type(&mut self, id: hir::NewTypeId) -> DataType {
        let decl = &self.hir.newtypes[id.index()];
        let name = names::control_plane_name("", &decl.name, &decl.annotations);
        self.record_named_type(&name, |lower| {
            let mut of = decl.of;
            while let TyKind::NewType(inner) = lower.types.kind(of) {
                of = lower.hir.newtypes[inner.index()].of;
            }
            let translation = names::find_annotation(&decl.annotations, "p4runtime_translation").and_then(translation);
            let annotations = names::shown_annotations(&decl.annotations, &["p4runtime_translation"]);
            if !annotations.is_empty() {
                lower.pipeline.type_annotations.insert(name.clone(), annotations);
            }
            if matches!(translation, Some((_, None))) {
                lower.record_string_mapping(&name, &decl.annotations, of);
            }
            NamedType::NewType(lower.data_type(of), translation)
        })
    }

    /// Checks and records `@p4runtime_translation_mappings`, the strings that the control plane
    /// uses for values of the type `name`, which has the underlying type `underlying_ty`. Strings
    /// and values must map one to one.
    fn record_string_mapping(&mut self, name: &str, annotations: &ast::Annotations, underlying_ty: Ty) {
        let Some(annotation) = names::find_annotation(annotations, "p4runtime_translation_mappings") else { return };
        let width = match self.types.kind(underlying_ty) {
            TyKind::Bit(width) => *width,
            _ => 0,
        };
        let strings = annotation.mappings().unwrap_or_default();
        for (index, (string, value)) in strings.iter().enumerate() {
            let earlier = &strings[..index];
            let problem = if value.bits() > u64::from(width) {
                format!("{value} does not fit in the {width} bits of `{name}`")
            } else if earlier.iter().any(|(earlier_entry, _)| earlier_entry == string) {
                format!("\"{string}\" is mapped twice")
            } else if let Some((earlier_entry, _)) = earlier.iter().find(|(_, earlier_entry)| earlier_entry == value) {
                format!("{value} is mapped to by \"{earlier_entry}\" and by \"{string}\"")
            } else {
                continue;
            };
            let diagnostic = Diagnostic::error("bad-annotation", annotation.span, problem);
            let help = "give each string one value of the type, and each value one string";
            self.diagnostics.push(diagnostic.help(help));
            return;
        }
        if !strings.is_empty() {
            self.pipeline.mappings.insert(name.to_string(), strings);
        }
    }

    /// Builds a control-plane parameter of a scalar type.
    pub(super) fn control_plane_param(
        &mut self,
        name: &str,
        ty: Ty,
        scalar: ir::Type,
        annotations: &ast::Annotations,
    ) -> Param {
        self.record_named_type_of(ty);
        Param {
            name: names::control_plane_name("", name, annotations),
            ty: scalar,
            annotations: names::documented_annotations(annotations, &[]),
            id: names::annotation_id(annotations),
            type_name: self.type_name(ty),
        }
    }

    /// Declares the headers that are marked `@controller_header`: `packet_in` and `packet_out`.
    /// Hidden fields are left out; nested structs become their leaves.
    pub(super) fn controller_headers(&mut self) {
        for (struct_index, decl) in self.hir.structs.iter().enumerate() {
            let Some(annotation) = names::find_annotation(&decl.annotations, "controller_header") else { continue };
            let Some(name) = annotation.single_string() else { continue };
            if decl.kind != StructKind::Header || !decl.type_params.is_empty() {
                continue;
            }
            let Some(ty) = self.types.find(&TyKind::Struct(hir::StructId(struct_index as u32), Vec::new())) else {
                continue;
            };
            let TypeLayout::Header(header, _) = self.layout(ty) else { continue };
            let mut fields = Vec::new();
            for field in &decl.fields {
                if names::find_annotation(&field.annotations, "hidden").is_some() {
                    continue;
                }
                match self.layout(field.ty) {
                    TypeLayout::Scalar(scalar) => {
                        fields.push(self.control_plane_param(&field.name, field.ty, scalar, &field.annotations));
                    }
                    TypeLayout::Struct(_) => {
                        let mut leaves = Vec::new();
                        self.flat_params(&format!("{}.", field.name), field.ty, &mut leaves);
                        fields.extend(leaves);
                    }
                    _ => {}
                }
            }
            let preamble = names::build_preamble(name.to_string(), &decl.annotations);
            let ids = decl.fields.iter().map(|field| (&field.annotations, field.span));
            let checked = self.check_field_ids(ids);
            if checked.and(self.take_identity("packet header", &preamble, decl.span)).is_err() {
                continue;
            }
            self.pipeline.controller_headers.push(ir::ControllerHeader { preamble, header, fields });
        }
    }

    fn flat_params(&mut self, prefix: &str, ty: Ty, out: &mut Vec<Param>) {
        if let TypeLayout::Struct(members) = self.layout(ty) {
            for member in members.iter() {
                let name = format!("{prefix}{}", member.name);
                match self.layout(member.ty) {
                    TypeLayout::Scalar(scalar) => {
                        let param = self.control_plane_param(&name, member.ty, scalar, &Vec::new());
                        out.push(param);
                    }
                    _ => self.flat_params(&format!("{name}."), member.ty, out),
                }
            }
        }
    }

    /// Collects the fields with `@field_list` in user metadata.
    pub(super) fn field_lists(&mut self, place: &Storage, ty: Ty) {
        let ty = self.substitute_scope_params(ty);
        let TyKind::Struct(id, _) = self.types.kind(ty).clone() else { return };
        for (n, field) in self.hir.structs[id.index()].fields.iter().enumerate() {
            let Some(part) = place.part(n).cloned() else { continue };
            for list in &field.field_lists {
                let kept = self.pipeline.field_lists.entry(*list).or_default();
                // A field is listed once, even if its struct is listed as a whole.
                kept.extend(part.vars().into_iter().filter(|var| !kept.contains(var)).collect::<Vec<_>>());
            }
            let ty = self.member_type(ty, n);
            self.field_lists(&part, ty);
        }
    }
}

/// Parses `@p4runtime_translation(uri, width)`. The width is a number, `bit<W>` or `string`; the
/// parser has checked this.
fn translation(annotation: &Annotation) -> Option<(String, Option<u32>)> {
    let ast::AnnotationBody::Unstructured(body) = &annotation.body else { return None };
    let uri = body.tokens.first()?.text.trim_matches('"').to_string();
    let width = body.tokens.iter().find(|token| token.kind == Tok::Int);
    let width = width.and_then(|token| parse_integer(&token.text).ok()).and_then(|n| u32::try_from(&n.value).ok());
    Some((uri, width))
}
