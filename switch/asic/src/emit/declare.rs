//! Declarations of types: errors, enumerations, headers, structs.

use super::Emitter;
use super::expr::{number, type_text};
use super::names::flat;
use super::storage::union_type;
use super::text::Lines;
use ir::*;
use std::collections::BTreeSet;

impl Emitter<'_> {
    /// Whether the architecture's own file declares something of that name.
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

    /// Writes all types.
    pub(super) fn types(&self, lines: &mut Lines, more_metadata: &[(String, String)]) {
        self.errors(lines);
        for of in self.p.enums.values().filter(|e| !self.is_included("enum", &e.name)) {
            lines.gap();
            lines.line(&format!("enum {} {{ {} }}", of.name, of.members.join(", ")));
        }
        let headers: BTreeSet<&str> = self.p.header_types.values().map(|h| h.name.as_str()).collect();
        let enums: BTreeSet<&str> = self.p.enums.values().map(|e| e.name.as_str()).collect();
        let others =
            || self.p.named_types.iter().filter(|(n, _)| !headers.contains(n.as_str()) && !enums.contains(n.as_str()));
        // Headers may have fields of these; structs have headers in them.
        others()
            .filter(|(_, ty)| !matches!(ty, NamedType::Struct(_) | NamedType::Union(_)))
            .for_each(|(n, ty)| self.named(lines, n, ty));
        self.p.header_types.iter().for_each(|(id, _)| self.header_type(lines, id));
        let mut written = BTreeSet::new();
        for (id, _) in self.p.unions.iter() {
            self.union(lines, id, &mut written);
        }
        for (name, ty) in others().filter(|(_, ty)| matches!(ty, NamedType::Union(_))) {
            self.named(lines, name, ty);
        }
        let structs: Vec<_> = others().filter(|(_, ty)| matches!(ty, NamedType::Struct(_))).collect();
        self.structs(lines, &structs);
        for (id, _) in self.p.value_sets.iter() {
            self.value_set_type(lines, id);
        }
        self.names.storage.declare(lines, "headers_t", "metadata_t", more_metadata);
    }

    fn errors(&self, lines: &mut Lines) {
        let core = "NoError PacketTooShort NoMatch StackOutOfBounds HeaderTooShort ParserTimeout ParserInvalidArgument";
        let own: Vec<&str> =
            self.p.errors.iter().map(String::as_str).filter(|e| !core.split(' ').any(|c| c == *e)).collect();
        if !own.is_empty() {
            lines.gap();
            lines.open("error");
            lines.line(&own.join(", "));
            lines.close();
        }
    }

    /// Structs, each behind those that it names.
    fn structs(&self, lines: &mut Lines, structs: &[&(String, NamedType)]) {
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
                    self.named(lines, name, ty);
                }
            }
        }
    }

    fn named(&self, lines: &mut Lines, name: &str, ty: &NamedType) {
        match ty {
            NamedType::Struct(members) if !self.is_included("struct", name) => {
                lines.gap();
                lines.open(&format!("struct {name}"));
                members.iter().for_each(|(member, ty)| lines.line(&format!("{} {member};", self.data_type(ty))));
                lines.close();
            }
            NamedType::SerializableEnum(width, members) => {
                lines.gap();
                lines.open(&format!("enum bit<{width}> {name}"));
                for (n, (member, value)) in members.iter().enumerate() {
                    let comma = if n + 1 < members.len() { "," } else { "" };
                    lines.line(&format!("{member} = {}{comma}", number(value)));
                }
                lines.close();
            }
            // On the chip everything is plain bits.
            NamedType::NewType(..) if self.target.is_tofino() => {}
            NamedType::NewType(of, translation) if self.target != super::Target::Pna || !self.is_included("", name) => {
                lines.gap();
                self.p.type_annotations.get(name).into_iter().flatten().for_each(|a| lines.line(a));
                if let Some((uri, width)) = translation {
                    let width = width.map_or("string".to_owned(), |w| w.to_string());
                    lines.line(&format!("@p4runtime_translation(\"{uri}\", {width})"));
                }
                lines.line(&format!("type {} {name};", self.data_type(of)));
            }
            NamedType::Header(fields) => {
                lines.gap();
                lines.open(&format!("header {name}"));
                fields.iter().for_each(|(field, ty)| lines.line(&format!("{} {};", self.data_type(ty), flat(field))));
                lines.close();
            }
            NamedType::Union(members) => {
                lines.gap();
                lines.open(&format!("header_union {name}"));
                members.iter().for_each(|(member, ty)| lines.line(&format!("{ty} {member};")));
                lines.close();
            }
            _ => {}
        }
    }

    fn header_type(&self, lines: &mut Lines, id: HeaderTypeId) {
        let header = &self.p.header_types[id];
        lines.gap();
        let controller = self.p.controller_headers.iter().find(|c| c.header == id);
        if let Some(controller) = controller {
            lines.line(&format!("@controller_header(\"{}\")", controller.preamble.name));
            let told = controller.preamble.annotations.iter().filter(|a| !a.starts_with("@controller_header"));
            told.for_each(|a| lines.line(a));
            if controller.preamble.id != 0 {
                lines.line(&format!("@id({})", controller.preamble.id));
            }
        }
        lines.open(&format!("header {}", header.name));
        for field in &header.fields {
            let local = flat(&field.name);
            let told =
                controller.and_then(|c| c.fields.iter().find(|f| f.name == field.name || flat(&f.name) == local));
            let mut text = String::new();
            let mut ty = type_text(self.p, field.ty);
            match (controller, told) {
                (Some(_), Some(told)) => {
                    if told.name != local {
                        text.push_str(&format!("@name(\"{}\") ", told.name));
                    }
                    if told.id != 0 {
                        text.push_str(&format!("@id({}) ", told.id));
                    }
                    told.annotations.iter().for_each(|a| text.push_str(&format!("{a} ")));
                    ty = told.type_name.clone().unwrap_or(ty);
                }
                (Some(_), None) => text.push_str("@hidden "),
                (None, _) => {}
            }
            lines.line(&format!("{text}{ty} {local};"));
        }
        lines.close();
    }

    fn union(&self, lines: &mut Lines, id: UnionId, written: &mut BTreeSet<String>) {
        let name = union_type(self.p, id);
        if !written.insert(name.clone()) {
            return;
        }
        lines.gap();
        lines.open(&format!("header_union {name}"));
        for header in &self.p.unions[id].members {
            let header = &self.p.headers[*header];
            let member = header.name.rsplit('.').next().unwrap_or_default();
            lines.line(&format!("{} {member};", self.p.header_types[header.ty].name));
        }
        lines.close();
    }
}
