//! Generates P4Info from a pipeline: tables, actions, value sets, packet metadata.

use super::annotation::{documentation, exported_annotations, find, find_all};
use super::ids::{IdPrefix, Symbols};
use super::model::{self, Documentation, Expression, MatchType, P4Info, PkgInfo, Scope};
use super::types::{TypeTable, padded_bytes};
use crate::declaration::Preamble;
use crate::entity::ActionId;
use crate::externs::ExternKind;
use crate::pipeline::{Arch, Pipeline, ValueSet};
use crate::table::{MatchKey, MatchKind, Param, Table};
use crate::types::Type;
use std::collections::BTreeSet;

/// Size of a table that declares none.
const DEFAULT_TABLE_SIZE: u64 = 1024;

/// Generates P4Info. It describes all declarations of the pipeline, used or not, so it is the same
/// before and after passes.
pub fn generate(pipeline: &Pipeline) -> P4Info {
    let mut generator = P4InfoGenerator {
        pipeline,
        symbols: collect_symbols(pipeline),
        types: TypeTable::new(pipeline),
        info: P4Info::default(),
    };
    generator.info.pkg_info = pkg_info(pipeline);
    generator.generate_tables();
    generator.generate_actions();
    generator.generate_externs();
    generator.generate_controller_headers();
    generator.generate_value_sets();
    generator.info.type_info = std::mem::take(&mut generator.types.info);
    generator.info
}

pub(super) struct P4InfoGenerator<'p> {
    pub pipeline: &'p Pipeline,
    pub symbols: Symbols,
    pub types: TypeTable<'p>,
    pub info: P4Info,
}

/// Returns the id prefix of an extern object, for types that P4Info includes.
pub(super) fn id_prefix(kind: &ExternKind) -> Option<IdPrefix> {
    match kind {
        ExternKind::Counter { .. } => Some(IdPrefix::Counter),
        ExternKind::DirectCounter { .. } => Some(IdPrefix::DirectCounter),
        ExternKind::Meter { .. } => Some(IdPrefix::Meter),
        ExternKind::DirectMeter { .. } => Some(IdPrefix::DirectMeter),
        ExternKind::Register { .. } => Some(IdPrefix::Register),
        ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. } => Some(IdPrefix::ActionProfile),
        ExternKind::Digest { .. } => Some(IdPrefix::Digest),
        ExternKind::Hash { .. }
        | ExternKind::Checksum { .. }
        | ExternKind::InternetChecksum
        | ExternKind::Checksum16
        | ExternKind::Random { .. }
        | ExternKind::PortPool { .. }
        | ExternKind::EntryQuota { .. } => None,
    }
}

/// Assigns ids to all objects. Hidden objects get ids as well, because the ids of others must not
/// depend on their visibility.
fn collect_symbols(pipeline: &Pipeline) -> Symbols {
    let mut symbols = Symbols::default();
    for action in pipeline.actions.values() {
        symbols.add_symbol(IdPrefix::Action, &action.preamble.name, action.preamble.id);
    }
    for table in pipeline.tables.values() {
        symbols.add_symbol(IdPrefix::Table, &table.preamble.name, table.preamble.id);
    }
    for object in pipeline.externs.values() {
        if let Some(prefix) = id_prefix(&object.kind) {
            symbols.add_symbol(prefix, &object.preamble.name, object.preamble.id);
        }
    }
    for set in pipeline.value_sets.values() {
        symbols.add_symbol(IdPrefix::ValueSet, &set.preamble.name, set.preamble.id);
    }
    for header in &pipeline.controller_headers {
        // By the name of the type; the annotation's name is only for display.
        if let Some(ty) = pipeline.header_types.get(header.header) {
            symbols.add_symbol(IdPrefix::ControllerHeader, &ty.name, header.preamble.id);
        }
    }
    symbols.assign_ids();
    symbols
}

/// Returns the message PkgInfo: architecture, `@pkginfo` and `@platform_property` of the package.
fn pkg_info(pipeline: &Pipeline) -> PkgInfo {
    let arch = match pipeline.arch {
        Arch::V1Model => "v1model",
        Arch::Pna => "pna",
    };
    let mut info = PkgInfo {
        arch: arch.into(),
        annotations: exported_annotations(&pipeline.annotations, &["pkginfo", "platform_property"]),
        doc: documentation(&pipeline.annotations),
        ..PkgInfo::default()
    };
    for (key, value) in find_all(&pipeline.annotations, "pkginfo").flat_map(|a| a.pairs()) {
        let Expression::String(value) = value else { continue };
        match key.as_str() {
            "name" => info.name = value,
            "version" => info.version = value,
            "organization" => info.organization = value,
            "contact" => info.contact = value,
            "url" => info.url = value,
            "arch" => info.arch = value,
            _ => {}
        }
    }
    for (key, value) in find_all(&pipeline.annotations, "platform_property").flat_map(|a| a.pairs()) {
        if let Expression::Int(value) = value {
            info.platform_properties.insert(key, value);
        }
    }
    info
}

/// Returns ids within a message: those of `@id`, and for the others the position from 1, or the
/// next free number.
pub(super) fn field_ids(given: impl Iterator<Item = u32> + Clone) -> Vec<u32> {
    let mut taken: BTreeSet<u32> = given.clone().filter(|id| *id != 0).collect();
    let mut next = 1;
    given
        .map(|id| {
            if id != 0 {
                next += 1;
                return id;
            }
            while taken.contains(&next) {
                next += 1;
            }
            taken.insert(next);
            next
        })
        .collect()
}

impl P4InfoGenerator<'_> {
    pub fn generate_preamble(&self, prefix: IdPrefix, preamble: &Preamble, but: &[&str]) -> model::Preamble {
        let mut doc = documentation(&preamble.annotations);
        if !preamble.brief.is_empty() || !preamble.description.is_empty() {
            doc = Documentation { brief: preamble.brief.clone(), description: preamble.description.clone() };
        }
        model::Preamble {
            id: self.symbols.symbol_id(prefix, &preamble.name),
            name: preamble.name.clone(),
            alias: self.symbols.shortest_alias(&preamble.name),
            annotations: exported_annotations(&preamble.annotations, but),
            doc,
        }
    }

    fn action_id(&self, action: ActionId) -> u32 {
        self.pipeline.actions.get(action).map_or(0, |a| self.symbols.symbol_id(IdPrefix::Action, &a.preamble.name))
    }

    fn generate_tables(&mut self) {
        for table in self.pipeline.tables.values().filter(|t| !t.preamble.hidden) {
            let shown = self.generate_table(table);
            self.info.tables.push(shown);
        }
    }

    /// Returns a table's description in P4Info. Selector keys are left out, because entries do not
    /// match them. Ids of absent objects are 0, as protobuf omits them.
    fn generate_table(&mut self, table: &Table) -> model::Table {
        let default = self.action_id(table.default_action.action);
        let initial_default_action = self.generate_default_action(table, default);
        let direct_objects =
            [(table.direct_counter, IdPrefix::DirectCounter), (table.direct_meter, IdPrefix::DirectMeter)];
        let extern_id = |object, prefix| {
            let object = self.pipeline.externs.get(object);
            object.map_or(0, |o| self.symbols.symbol_id(prefix, &o.preamble.name))
        };
        let size = table.size.filter(|s| *s != 0).unwrap_or(DEFAULT_TABLE_SIZE);
        let mut description = model::Table {
            preamble: self.generate_preamble(IdPrefix::Table, &table.preamble, &[]),
            match_fields: Vec::new(),
            action_refs: table.actions.iter().map(|a| self.generate_action_ref(a)).collect(),
            const_default_action_id: if table.const_default { default } else { 0 },
            initial_default_action,
            implementation_id: table.implementation.map_or(0, |o| extern_id(o, IdPrefix::ActionProfile)),
            direct_resource_ids: direct_objects.into_iter().filter_map(|(o, p)| Some(extern_id(o?, p))).collect(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            notify_idle_timeout: table.idle_timeout,
            is_const_table: table.const_entries,
            has_initial_entries: !table.entries.is_empty(),
        };
        let ids = field_ids(table.keys.iter().map(|k| k.id));
        let keys = table.keys.iter().zip(ids).filter(|(k, _)| k.kind != MatchKind::Selector);
        description.match_fields = keys.map(|(k, id)| self.generate_match_field(k, id, &[])).collect();
        description
    }

    fn generate_action_ref(&self, action: &crate::table::ActionRef) -> model::ActionRef {
        let mut annotations = exported_annotations(&action.annotations, &[]);
        let flags = [(action.table_only, "@tableonly"), (action.default_only, "@defaultonly")];
        for (_, text) in flags.into_iter().filter(|(set, _)| *set) {
            if !annotations.plain.iter().any(|a| a == text) {
                annotations.plain.insert(0, text.into());
            }
        }
        let scope = match (action.table_only, action.default_only) {
            (true, _) => Scope::TableOnly,
            (false, true) => Scope::DefaultOnly,
            (false, false) => Scope::TableAndDefault,
        };
        model::ActionRef { id: self.action_id(action.action), scope, annotations }
    }

    fn generate_default_action(&mut self, table: &Table, action_id: u32) -> model::ActionCall {
        let call = &table.default_action;
        let params = self.pipeline.actions.get(call.action).map(|a| a.params.as_slice()).unwrap_or_default();
        let arguments = params.iter().zip(&call.args).zip(1..).map(|((param, value), position)| {
            let width = self.types.describe_scalar(param.ty, param.type_name.as_deref()).bitwidth;
            (if param.id == 0 { position } else { param.id }, padded_bytes(value, width))
        });
        model::ActionCall { action_id, arguments: arguments.collect() }
    }

    fn generate_match_field(&mut self, key: &MatchKey, id: u32, but: &[&str]) -> model::MatchField {
        let ty = self.types.describe_scalar(key.ty, key.type_name.as_deref());
        model::MatchField {
            id,
            name: key.name.clone(),
            annotations: exported_annotations(&key.annotations, but),
            bitwidth: ty.bitwidth,
            match_type: match key.kind {
                MatchKind::Exact => Some(MatchType::Exact),
                MatchKind::Ternary => Some(MatchType::Ternary),
                MatchKind::Lpm => Some(MatchType::Lpm),
                MatchKind::Range => Some(MatchType::Range),
                MatchKind::Optional => Some(MatchType::Optional),
                MatchKind::Selector => None,
            },
            doc: documentation(&key.annotations),
            type_name: ty.type_name,
        }
    }

    fn generate_actions(&mut self) {
        for action in self.pipeline.actions.values().filter(|a| !a.preamble.hidden) {
            let preamble = self.generate_preamble(IdPrefix::Action, &action.preamble, &[]);
            let ids = field_ids(action.params.iter().map(|p| p.id));
            let params = action.params.iter().zip(ids).map(|(p, id)| self.generate_param(p, id, true)).collect();
            self.info.actions.push(model::Action { preamble, params });
        }
    }

    fn generate_param(&mut self, param: &Param, id: u32, of_action: bool) -> model::Param {
        let ty = self.types.describe_scalar(param.ty, param.type_name.as_deref());
        let is_enum = matches!(param.ty, Type::Enum(_));
        model::Param {
            id,
            name: param.name.clone(),
            annotations: exported_annotations(&param.annotations, &[]),
            bitwidth: if is_enum { 0 } else { ty.bitwidth },
            doc: if of_action { documentation(&param.annotations) } else { Documentation::default() },
            type_name: ty.type_name.or(ty.enumeration.filter(|_| of_action)),
        }
    }

    fn generate_controller_headers(&mut self) {
        for header in self.pipeline.controller_headers.iter().filter(|h| !h.preamble.hidden) {
            let name = self.pipeline.header_types.get(header.header).map_or("", |t| &t.name);
            let mut preamble = self.generate_preamble(IdPrefix::ControllerHeader, &header.preamble, &[]);
            preamble.id = self.symbols.symbol_id(IdPrefix::ControllerHeader, name);
            preamble.alias = header.preamble.name.clone();
            let shown = format!("@controller_header(\"{}\")", header.preamble.name);
            if !preamble.annotations.plain.contains(&shown) {
                preamble.annotations.plain.insert(0, shown);
            }
            let ids = field_ids(header.fields.iter().map(|f| f.id));
            let visible = |f: &&Param| find(&f.annotations, "hidden").is_none();
            let fields = header.fields.iter().zip(ids).filter(|(f, _)| visible(f));
            let metadata = fields.map(|(f, id)| self.generate_param(f, id, false)).collect();
            self.info.controller_packet_metadata.push(model::ControllerPacketMetadata { preamble, metadata });
        }
    }

    fn generate_value_sets(&mut self) {
        for set in self.pipeline.value_sets.values() {
            let shown = self.generate_value_set(set);
            self.info.value_sets.push(shown);
        }
    }

    fn generate_value_set(&mut self, set: &ValueSet) -> model::ValueSet {
        let ids = field_ids(set.keys.iter().map(|k| k.id));
        let matches = set.keys.iter().zip(ids).map(|(k, id)| self.generate_match_field(k, id, &["match"])).collect();
        model::ValueSet {
            preamble: self.generate_preamble(IdPrefix::ValueSet, &set.preamble, &[]),
            matches,
            size: i64::try_from(set.size).unwrap_or(i64::MAX),
        }
    }
}
