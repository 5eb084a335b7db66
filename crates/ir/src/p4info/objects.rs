//! Generates P4Info from a pipeline: extern objects.

use super::annotation::find;
use super::generate::{P4InfoGenerator, id_prefix};
use super::ids::IdPrefix;
use super::model::{self, SizeSemantics, Unit};
use crate::entity::ExternId;
use crate::externs::{CounterUnit, ExternInst, ExternKind, MeterUnit};

/// Annotations of an action profile that P4Info has fields for.
const PROFILE_FIELDS: [&str; 3] = ["max_group_size", "selector_size_semantics", "max_member_weight"];

fn counter_unit(unit: CounterUnit) -> Unit {
    match unit {
        CounterUnit::Packets => Unit::Packets,
        CounterUnit::Bytes => Unit::Bytes,
        CounterUnit::Both => Unit::Both,
    }
}

fn meter_unit(unit: MeterUnit) -> Unit {
    match unit {
        MeterUnit::Packets => Unit::Packets,
        MeterUnit::Bytes => Unit::Bytes,
    }
}

fn clamped_size(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

impl P4InfoGenerator<'_> {
    pub fn generate_externs(&mut self) {
        for (id, object) in self.pipeline.externs.iter() {
            let Some(prefix) = id_prefix(&object.kind) else { continue };
            self.generate_object(id, object, prefix);
        }
    }

    /// Adds the extern object `id` to P4Info, with ids of the kind `prefix`. Hashes, checksums and
    /// random numbers have no state and are not shown.
    fn generate_object(&mut self, id: ExternId, object: &ExternInst, prefix: IdPrefix) {
        let preamble = self.generate_preamble(prefix, &object.preamble, &PROFILE_FIELDS);
        match &object.kind {
            ExternKind::Counter { size, unit, index_type } => {
                let index_type_name = self.types.index_type_name(index_type.as_deref());
                let unit = counter_unit(*unit);
                self.info.counters.push(model::Counter { preamble, unit, size: clamped_size(*size), index_type_name });
            }
            ExternKind::Meter { size, unit, index_type } => {
                let index_type_name = self.types.index_type_name(index_type.as_deref());
                let unit = meter_unit(*unit);
                self.info.meters.push(model::Meter { preamble, unit, size: clamped_size(*size), index_type_name });
            }
            // A direct object that is not attached to a table is not shown.
            ExternKind::DirectCounter { unit } => {
                if let [direct_table_id] = self.tables_with(|t| t.direct_counter == Some(id))[..] {
                    let unit = counter_unit(*unit);
                    self.info.direct_counters.push(model::DirectCounter { preamble, unit, direct_table_id });
                }
            }
            ExternKind::DirectMeter { unit } => {
                if let [direct_table_id] = self.tables_with(|t| t.direct_meter == Some(id))[..] {
                    let unit = meter_unit(*unit);
                    self.info.direct_meters.push(model::DirectMeter { preamble, unit, direct_table_id });
                }
            }
            ExternKind::Register { size, data_type, index_type, .. } => {
                let type_spec = self.types.describe_data_type(data_type);
                let index_type_name = self.types.index_type_name(index_type.as_deref());
                self.info.registers.push(model::Register {
                    preamble,
                    type_spec,
                    size: clamped_size(*size),
                    index_type_name,
                });
            }
            ExternKind::ActionProfile { size } => self.generate_profile(id, object, preamble, *size, false),
            ExternKind::ActionSelector { size, .. } => self.generate_profile(id, object, preamble, *size, true),
            ExternKind::Digest { data_type, .. } => {
                let type_spec = self.types.describe_data_type(data_type);
                self.info.digests.push(model::Digest { preamble, type_spec });
            }
            ExternKind::Hash { .. }
            | ExternKind::Checksum { .. }
            | ExternKind::InternetChecksum
            | ExternKind::Checksum16
            | ExternKind::Random { .. }
            | ExternKind::PortPool { .. }
            | ExternKind::EntryQuota { .. } => {}
        }
    }

    /// Returns the ids of the visible tables for which `f` returns true.
    fn tables_with(&self, f: impl Fn(&crate::table::Table) -> bool) -> Vec<u32> {
        let tables = self.pipeline.tables.values().filter(|t| !t.preamble.hidden && f(t));
        tables.map(|t| self.symbols.symbol_id(IdPrefix::Table, &t.preamble.name)).collect()
    }

    /// Adds the action profile `id` to P4Info; `size` is its maximum number of members.
    fn generate_profile(
        &mut self,
        id: ExternId,
        object: &ExternInst,
        preamble: model::Preamble,
        size: u64,
        with_selector: bool,
    ) {
        let annotations = &object.preamble.annotations;
        // Without a selector there are no groups, so these annotations have no effect.
        let int_annotation =
            |name| find(annotations, name).filter(|_| with_selector).and_then(|a| a.int()).unwrap_or(0);
        let semantics = find(annotations, "selector_size_semantics").filter(|_| with_selector);
        let size_semantics = match semantics.and_then(|a| a.string()).map(|s| s.to_ascii_lowercase()).as_deref() {
            Some("sum_of_weights") => Some(SizeSemantics::SumOfWeights),
            Some("sum_of_members") => {
                Some(SizeSemantics::SumOfMembers { max_member_weight: int_annotation("max_member_weight") })
            }
            _ => None,
        };
        self.info.action_profiles.push(model::ActionProfile {
            preamble,
            table_ids: self.tables_with(|t| t.implementation == Some(id)),
            with_selector,
            size: clamped_size(size),
            max_group_size: int_annotation("max_group_size"),
            size_semantics,
        });
    }
}
