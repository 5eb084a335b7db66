//! Declarations of types: errors, enumerations, headers, structs.

use super::P4Emitter;
use super::expr::{number_text, type_text};
use super::names::to_identifier;
use super::storage::union_type;
use super::text::IndentedText;
use ir::*;
use std::collections::BTreeSet;

impl P4Emitter<'_> {
    /// Returns whether the architecture's include file declares a name.
    pub(super) fn is_included(&self, keyword: &str, name: &str) -> bool {
        let mut rest = self.include;
        let wanted = format!("{keyword} {name}");
        while let Some(at) = rest.find(&wanted) {
            rest = &rest[at + wanted.len()..];
            if !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
                return true;
            }
        }
        false
    }

    /// Emits all type declarations.
    pub(super) fn write_types(&self, lines: &mut IndentedText, more_metadata: &[(String, String)]) {
        self.write_errors(lines);
        for declared_enum in self.p.enums.values().filter(|e| !self.is_included("enum", &e.name)) {
            lines.separate();
            lines.line(&format!("enum {} {{ {} }}", declared_enum.name, declared_enum.members.join(", ")));
        }
        let headers: BTreeSet<&str> = self.p.header_types.values().map(|h| h.name.as_str()).collect();
        let enums: BTreeSet<&str> = self.p.enums.values().map(|e| e.name.as_str()).collect();
        let others =
            || self.p.named_types.iter().filter(|(n, _)| !headers.contains(n.as_str()) && !enums.contains(n.as_str()));
        // These come first, because headers can have fields of these types and structs contain
        // headers.
        others()
            .filter(|(_, ty)| !matches!(ty, NamedType::Struct(_) | NamedType::Union(_)))
            .for_each(|(n, ty)| self.write_named_type(lines, n, ty));
        self.p.header_types.iter().for_each(|(id, _)| self.write_header_type(lines, id));
        let mut written = BTreeSet::new();
        for (id, _) in self.p.unions.iter() {
            self.write_union(lines, id, &mut written);
        }
        for (name, ty) in others().filter(|(_, ty)| matches!(ty, NamedType::Union(_))) {
            self.write_named_type(lines, name, ty);
        }
        let structs: Vec<_> = others().filter(|(_, ty)| matches!(ty, NamedType::Struct(_))).collect();
        self.write_structs(lines, &structs);
        for (id, _) in self.p.value_sets.iter() {
            self.write_value_set_type(lines, id);
        }
        self.names.storage.declare(lines, "headers_t", "metadata_t", more_metadata);
    }

    fn write_errors(&self, lines: &mut IndentedText) {
        let core = "NoError PacketTooShort NoMatch StackOutOfBounds HeaderTooShort ParserTimeout ParserInvalidArgument";
        let own: Vec<&str> =
            self.p.errors.iter().map(String::as_str).filter(|e| !core.split(' ').any(|c| c == *e)).collect();
        if !own.is_empty() {
            lines.separate();
            lines.open_block("error");
            lines.line(&own.join(", "));
            lines.close_block();
        }
    }

    /// Emits structs, each after the structs that it refers to.
    fn write_structs(&self, lines: &mut IndentedText, structs: &[&(String, NamedType)]) {
        let mut written: BTreeSet<&str> = BTreeSet::new();
        for _ in 0..structs.len() {
            for (name, ty) in structs {
                let NamedType::Struct(members) = ty else { continue };
                let needs = members.iter().filter_map(|(_, ty)| match ty {
                    DataType::Named(n) | DataType::Stack(n, _) => Some(n.as_str()),
                    _ => None,
                });
                let ready =
                    needs.into_iter().all(|n| written.contains(n) || !structs.iter().any(|(other, _)| other == n));
                if ready && written.insert(name) {
                    self.write_named_type(lines, name, ty);
                }
            }
        }
    }

    /// Declares a type of the program, unless the architecture's include file has it.
    fn write_named_type(&self, lines: &mut IndentedText, name: &str, ty: &NamedType) {
        match ty {
            NamedType::Struct(members) if !self.is_included("struct", name) => {
                lines.separate();
                lines.open_block(&format!("struct {name}"));
                members.iter().for_each(|(member, ty)| lines.line(&format!("{} {member};", self.data_type(ty))));
                lines.close_block();
            }
            NamedType::SerializableEnum(width, members) => {
                lines.separate();
                lines.open_block(&format!("enum bit<{width}> {name}"));
                for (n, (member, value)) in members.iter().enumerate() {
                    let comma = if n + 1 < members.len() { "," } else { "" };
                    lines.line(&format!("{member} = {}{comma}", number_text(value)));
                }
                lines.close_block();
            }
            // Tofino programs use plain bit types.
            NamedType::NewType(..) if self.target.is_tofino() => {}
            NamedType::NewType(base, translation)
                if self.target != super::EmitTarget::Pna || !self.is_included("", name) =>
            {
                lines.separate();
                self.p.type_annotations.get(name).into_iter().flatten().for_each(|a| lines.line(a));
                if let Some((uri, width)) = translation {
                    let width = width.map_or("string".to_owned(), |w| w.to_string());
                    lines.line(&format!("@p4runtime_translation(\"{uri}\", {width})"));
                }
                lines.line(&format!("type {} {name};", self.data_type(base)));
            }
            NamedType::Header(fields) => {
                lines.separate();
                lines.open_block(&format!("header {name}"));
                fields
                    .iter()
                    .for_each(|(field, ty)| lines.line(&format!("{} {};", self.data_type(ty), to_identifier(field))));
                lines.close_block();
            }
            NamedType::Union(members) => {
                lines.separate();
                lines.open_block(&format!("header_union {name}"));
                members.iter().for_each(|(member, ty)| lines.line(&format!("{ty} {member};")));
                lines.close_block();
            }
            _ => {}
        }
    }

    /// Declares a header type. For a header of packet-in or packet-out, P4Info's names, ids and
    /// types are annotations.
    fn write_header_type(&self, lines: &mut IndentedText, id: HeaderTypeId) {
        let header = &self.p.header_types[id];
        lines.separate();
        let controller = self.p.controller_headers.iter().find(|c| c.header == id);
        if let Some(controller) = controller {
            lines.line(&format!("@controller_header(\"{}\")", controller.preamble.name));
            let annotations = controller.preamble.annotations.iter().filter(|a| !a.starts_with("@controller_header"));
            annotations.for_each(|a| lines.line(a));
            if controller.preamble.id != 0 {
                lines.line(&format!("@id({})", controller.preamble.id));
            }
        }
        lines.open_block(&format!("header {}", header.name));
        for field in &header.fields {
            let local = to_identifier(&field.name);
            let info_field = controller
                .and_then(|c| c.fields.iter().find(|f| f.name == field.name || to_identifier(&f.name) == local));
            let mut text = String::new();
            let mut ty = type_text(self.p, field.ty);
            match (controller, info_field) {
                (Some(_), Some(info_field)) => {
                    if info_field.name != local {
                        text.push_str(&format!("@name(\"{}\") ", info_field.name));
                    }
                    if info_field.id != 0 {
                        text.push_str(&format!("@id({}) ", info_field.id));
                    }
                    info_field.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
                    ty = info_field.type_name.clone().unwrap_or(ty);
                }
                (Some(_), None) => text.push_str("@hidden "),
                (None, _) => {}
            }
            lines.line(&format!("{text}{ty} {local};"));
        }
        lines.close_block();
    }

    fn write_union(&self, lines: &mut IndentedText, id: UnionId, written: &mut BTreeSet<String>) {
        let name = union_type(self.p, id);
        if !written.insert(name.clone()) {
            return;
        }
        lines.separate();
        lines.open_block(&format!("header_union {name}"));
        for header in &self.p.unions[id].members {
            let header = &self.p.headers[*header];
            let member = header.name.rsplit('.').next().unwrap_or_default();
            lines.line(&format!("{} {member};", self.p.header_types[header.ty].name));
        }
        lines.close_block();
    }
}
