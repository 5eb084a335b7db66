//! [`Schema`]: maps ids of P4Info to the pipeline's tables, keys, actions and objects, and back.

use super::keys::{MatchFieldSchema, MatchFieldSchemas};
use super::packet_header::PacketHeader;
use super::scalar::Scalar;
use super::strings::{Strings, Translations};
use crate::proto::config;
use crate::{P4RuntimeError, p4info};
use entries::KeyLayout;
use ir::p4info::{MatchField, P4Info, SizeSemantics, TypeInfo, TypeSpec};
use ir::{ActionId, ExternId, ExternKind, MatchKey, Pipeline, TableId, ValueSetId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Table with its P4Info id and match fields.
pub(super) struct TableSchema {
    pub id: TableId,
    /// P4Info id.
    pub number: u32,
    pub name: String,
    pub fields: MatchFieldSchemas,
    pub layout: KeyLayout,
    /// Actions with their P4Info ids.
    pub actions: Vec<(u32, ActionId)>,
}

/// Parameter of an action.
pub(super) struct ParamSchema {
    pub id: u32,
    pub name: String,
    pub scalar: Scalar,
}

/// Action with its P4Info id and parameters.
#[derive(Default)]
pub(super) struct ActionSchema {
    /// P4Info id.
    pub number: u32,
    pub name: String,
    pub params: Vec<ParamSchema>,
}

/// Action profile or selector, as in P4Info.
pub(super) struct ProfileSchema {
    pub id: ExternId,
    pub number: u32,
    pub name: String,
    /// One of the tables that use it; all list the same actions.
    pub table: Option<TableId>,
    pub with_selector: bool,
    /// Maximum group size; 0: not given.
    pub max_group_size: i64,
    pub semantics: SizeSemantics,
}

/// Parser value set.
pub(super) struct ValueSetSchema {
    pub id: ValueSetId,
    pub number: u32,
    pub fields: MatchFieldSchemas,
    pub layout: KeyLayout,
}

/// Counter, meter, register or digest with its P4Info id.
pub(super) struct ObjectSchema {
    pub id: ExternId,
    pub number: u32,
    pub name: String,
    /// Number of elements; 0 for digests.
    pub size: u64,
}

/// The control plane's view of a pipeline, with all data to translate between protobuf and
/// [`entries`]. It is created once for each pipeline; all functions are pure.
pub struct Schema {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) info: P4Info,
    message: config::P4Info,
    pub(super) tables: BTreeMap<u32, TableSchema>,
    pub(super) table_numbers: HashMap<TableId, u32>,
    pub(super) actions: Vec<ActionSchema>,
    pub(super) profiles: BTreeMap<u32, ProfileSchema>,
    pub(super) counters: BTreeMap<u32, ObjectSchema>,
    pub(super) meters: BTreeMap<u32, ObjectSchema>,
    pub(super) registers: BTreeMap<u32, (ObjectSchema, TypeSpec)>,
    pub(super) digests: BTreeMap<u32, (ObjectSchema, TypeSpec)>,
    pub(super) sets: BTreeMap<u32, ValueSetSchema>,
    pub(super) packet_in: Option<PacketHeader>,
    pub(super) packet_out: Option<PacketHeader>,
    pub(super) strings: Strings,
}

impl Schema {
    /// Creates the schema of a pipeline, on a device without translations.
    pub fn new(pipeline: Arc<Pipeline>) -> Schema {
        Schema::with_translations(pipeline, &Translations::new())
    }

    /// Creates the schema of a pipeline, on a device with these translations.
    pub fn with_translations(pipeline: Arc<Pipeline>, translations: &Translations) -> Schema {
        let info = ir::p4info::generate(&pipeline);
        let message = p4info::to_message(&info);
        let mut schema = Schema {
            message,
            tables: BTreeMap::new(),
            table_numbers: HashMap::new(),
            actions: actions(&pipeline, &info),
            profiles: BTreeMap::new(),
            counters: BTreeMap::new(),
            meters: BTreeMap::new(),
            registers: BTreeMap::new(),
            digests: BTreeMap::new(),
            sets: BTreeMap::new(),
            packet_in: PacketHeader::find(&pipeline, &info, "packet_in"),
            packet_out: PacketHeader::find(&pipeline, &info, "packet_out"),
            strings: Strings::new(&pipeline, translations),
            info,
            pipeline,
        };
        schema.add_tables();
        schema.add_sets();
        schema.add_profiles();
        schema.add_objects();
        schema
    }

    /// Returns the pipeline of the schema.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the P4Info message of the pipeline.
    pub fn p4info(&self) -> &config::P4Info {
        &self.message
    }

    /// Returns the P4Info of the pipeline as structs.
    pub fn info(&self) -> &P4Info {
        &self.info
    }

    /// Adds the tables that P4Info shows, which are in the order of the pipeline.
    fn add_tables(&mut self) {
        let (pipeline, info) = (self.pipeline.clone(), &self.info);
        let info_tables = pipeline.tables.iter().filter(|(_, table)| !table.preamble.hidden).zip(&info.tables);
        for ((id, table), info_table) in info_tables {
            let (number, name) = (info_table.preamble.id, table.preamble.name.clone());
            let keys = table.match_keys().map(|(_, key)| key);
            let fields = fields(&pipeline, format!("table {name}"), keys, &info_table.match_fields);
            let actions: Vec<(u32, ActionId)> =
                info_table.action_refs.iter().map(|a| a.id).zip(table.actions.iter().map(|a| a.action)).collect();
            for (number, action) in &actions {
                // Includes actions that P4Info does not show.
                if let Some(action) = self.actions.get_mut(action.0 as usize) {
                    action.number = *number;
                }
            }
            let layout = KeyLayout::new(&table.keys);
            self.table_numbers.insert(id, number);
            self.tables.insert(number, TableSchema { id, number, name, fields, layout, actions });
        }
    }

    fn add_sets(&mut self) {
        for ((id, set), shown) in self.pipeline.value_sets.iter().zip(&self.info.value_sets) {
            let owner = format!("value set {}", set.preamble.name);
            let fields = fields(&self.pipeline, owner, set.keys.iter(), &shown.matches);
            let (number, layout) = (shown.preamble.id, KeyLayout::new(&set.keys));
            self.sets.insert(number, ValueSetSchema { id, number, fields, layout });
        }
    }

    fn add_profiles(&mut self) {
        for shown in &self.info.action_profiles {
            let is_it = |kind: &ExternKind| {
                matches!(kind, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. })
            };
            let Some(id) = object(&self.pipeline, &shown.preamble.name, is_it) else { continue };
            let table = self.pipeline.tables.iter().find(|(_, t)| t.implementation == Some(id)).map(|(id, _)| id);
            let profile = ProfileSchema {
                id,
                number: shown.preamble.id,
                name: shown.preamble.name.clone(),
                table,
                with_selector: shown.with_selector,
                max_group_size: shown.max_group_size,
                semantics: shown.size_semantics.unwrap_or(SizeSemantics::SumOfWeights),
            };
            self.profiles.insert(shown.preamble.id, profile);
        }
    }

    /// Adds the counters, meters, registers and digests that P4Info shows.
    fn add_objects(&mut self) {
        let pipeline = &self.pipeline;
        let object_schema = |preamble: &ir::p4info::Preamble, size: i64, has_kind: &dyn Fn(&ExternKind) -> bool| {
            let (number, name) = (preamble.id, preamble.name.clone());
            let id = object(pipeline, &name, has_kind)?;
            Some((number, ObjectSchema { id, number, name, size: u64::try_from(size).unwrap_or(0) }))
        };
        let counters = self.info.counters.iter();
        let is_counter = |kind: &ExternKind| matches!(kind, ExternKind::Counter { .. });
        self.counters = counters.filter_map(|c| object_schema(&c.preamble, c.size, &is_counter)).collect();
        let meters = self.info.meters.iter();
        let is_meter = |kind: &ExternKind| matches!(kind, ExternKind::Meter { .. });
        self.meters = meters.filter_map(|m| object_schema(&m.preamble, m.size, &is_meter)).collect();
        let is_register = |kind: &ExternKind| matches!(kind, ExternKind::Register { .. });
        for register in &self.info.registers {
            if let Some((number, object)) = object_schema(&register.preamble, register.size, &is_register) {
                self.registers.insert(number, (object, register.type_spec.clone()));
            }
        }
        let is_digest = |kind: &ExternKind| matches!(kind, ExternKind::Digest { .. });
        for digest in &self.info.digests {
            if let Some((number, object)) = object_schema(&digest.preamble, 0, &is_digest) {
                self.digests.insert(number, (object, digest.type_spec.clone()));
            }
        }
    }

    pub(super) fn types(&self) -> &TypeInfo {
        &self.info.type_info
    }

    /// Returns the table with this id, and its declaration.
    pub(super) fn table(&self, number: u32) -> Result<(&TableSchema, &ir::Table), P4RuntimeError> {
        let schema = find(&self.tables, number, "table")?;
        Ok((schema, &self.pipeline.tables[schema.id]))
    }

    /// Returns the table if P4Info shows it.
    pub(super) fn shown_table(&self, id: TableId) -> Option<&TableSchema> {
        self.tables.get(self.table_numbers.get(&id)?)
    }

    /// Returns the profile or selector of a table.
    pub(super) fn profile_of(&self, table: &ir::Table) -> Option<&ProfileSchema> {
        let id = table.implementation?;
        self.profiles.values().find(|profile| profile.id == id)
    }
}

/// Returns the object with this id.
///
/// Errors: `INVALID_ARGUMENT` if the id is 0, `NOT_FOUND` if it is unknown.
pub(super) fn find<'a, T>(map: &'a BTreeMap<u32, T>, number: u32, what: &str) -> Result<&'a T, P4RuntimeError> {
    match map.get(&number) {
        Some(found) => Ok(found),
        None if number == 0 => {
            Err(P4RuntimeError::invalid(format!("the {what}'s id is missing; take it from the P4Info")))
        }
        None => Err(P4RuntimeError::not_found(format!(
            "there is no {what} with id {number:#x}; the program has {} of them, with the ids of its P4Info",
            map.len()
        ))),
    }
}

fn object(pipeline: &Pipeline, name: &str, is_it: impl Fn(&ExternKind) -> bool) -> Option<ExternId> {
    pipeline.externs.iter().find(|(_, e)| e.preamble.name == name && is_it(&e.kind)).map(|(id, _)| id)
}

fn fields<'a>(
    pipeline: &Pipeline,
    owner: String,
    keys: impl Iterator<Item = &'a MatchKey>,
    shown: &[MatchField],
) -> MatchFieldSchemas {
    let field = |(key, shown): (&MatchKey, &MatchField)| MatchFieldSchema {
        id: shown.id,
        name: key.name.clone(),
        scalar: Scalar::new(pipeline, key.ty, key.type_name.as_deref()),
        kind: key.kind,
    };
    MatchFieldSchemas { owner, list: keys.zip(shown).map(field).collect() }
}

/// Returns all actions in the order of the pipeline. An action that P4Info does not show has the
/// number 0.
fn actions(pipeline: &Pipeline, p4info: &P4Info) -> Vec<ActionSchema> {
    let mut info_actions = p4info.actions.iter();
    let action_schema = |action: &ir::Action| {
        let info = if action.preamble.hidden { None } else { info_actions.next() };
        let param = |(index, param): (usize, &ir::Param)| {
            let default_id = || if param.id == 0 { index as u32 + 1 } else { param.id };
            let id = info.and_then(|info| info.params.get(index)).map_or_else(default_id, |param| param.id);
            ParamSchema {
                id,
                name: param.name.clone(),
                scalar: Scalar::new(pipeline, param.ty, param.type_name.as_deref()),
            }
        };
        ActionSchema {
            number: info.map_or(0, |info| info.preamble.id),
            name: action.preamble.name.clone(),
            params: action.params.iter().enumerate().map(param).collect(),
        }
    };
    pipeline.actions.values().map(action_schema).collect()
}
