//! `MeterEntry` and `DirectMeterEntry`: two rates and three colors (RFC 2698).

use super::counter::{
    DirectResource, decode_index, for_each, index_message, selected_elements, selected_objects, table_entry,
};
use super::schema::{Schema, TableSchema, find};
use super::update::only_modify;
use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::{Device, DeviceEntry, EntryValues, P4RuntimeError};
use entries::{ControlState, MeterConfig, StateUpdate, UpdateKind};
use std::ops::ControlFlow;

/// Decodes the configuration of a meter. The write checks later that the peak rate is not below the
/// committed one and that the bursts let packets pass.
pub(super) fn decode_meter(given: &v1::MeterConfig, place: &dyn Fn() -> String) -> Result<MeterConfig, P4RuntimeError> {
    let number = |value: i64, what: &str| {
        u64::try_from(value).map_err(|_| {
            P4RuntimeError::invalid(format!("{}: the meter's {what} is {value}; it cannot be negative", place()))
        })
    };
    if given.eburst != 0 {
        return Err(P4RuntimeError::invalid(format!(
            "{}: the meter has two rates and no excess burst (RFC 2698); leave eburst out",
            place()
        )));
    }
    Ok(MeterConfig {
        cir: number(given.cir, "cir")?,
        cburst: number(given.cburst, "cburst")?,
        pir: number(given.pir, "pir")?,
        pburst: number(given.pburst, "pburst")?,
    })
}

pub(super) fn encode_meter(config: &MeterConfig) -> v1::MeterConfig {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    v1::MeterConfig {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: 0,
    }
}

/// Returns the error of a request for counters by color, which do not exist.
pub(super) fn no_color_counters(name: &str) -> P4RuntimeError {
    P4RuntimeError::unimplemented(format!("{name}: there are no counters for a meter's colours; leave them out"))
}

fn no_meter(table: &TableSchema) -> P4RuntimeError {
    P4RuntimeError::invalid(format!("table {}: it has no direct meter", table.name))
}

impl Schema {
    pub(super) fn meter_write(
        &self,
        kind: UpdateKind,
        given: &v1::MeterEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a meter")?;
        let meter = find(&self.meters, given.meter_id, "meter")?;
        if given.counter_data.is_some() {
            return Err(no_color_counters(&meter.name));
        }
        let index = decode_index(meter, given.index.as_ref())?;
        let config = given.config.as_ref().map(|given| decode_meter(given, &|| meter.name.clone())).transpose()?;
        for_each(meter, index, |index| StateUpdate::Meter(meter.id, index, config))
    }

    pub(super) fn direct_meter_write(
        &self,
        kind: UpdateKind,
        given: &v1::DirectMeterEntry,
    ) -> Result<Vec<StateUpdate>, P4RuntimeError> {
        only_modify(kind, "a direct meter")?;
        let (table, declared, id) = self.entry_id(table_entry(given.table_entry.as_ref())?)?;
        if declared.direct_meter.is_none() {
            return Err(no_meter(table));
        }
        let place = || format!("table {}", table.name);
        if given.counter_data.is_some() {
            return Err(no_color_counters(&place()));
        }
        let config = given.config.as_ref().map(|given| decode_meter(given, &place)).transpose()?;
        Ok(vec![StateUpdate::DirectMeter(id, config)])
    }

    pub(super) fn read_meters(&self, state: &ControlState, given: &v1::MeterEntry, sink: EntitySink<'_>) -> ReadFlow {
        for (meter, index) in selected_objects(&self.meters, given.meter_id, given.index.as_ref(), "meter")? {
            if given.counter_data.is_some() {
                return Err(no_color_counters(&meter.name));
            }
            for index in selected_elements(meter, index) {
                let message = v1::MeterEntry {
                    meter_id: meter.number,
                    index: index_message(index),
                    config: state.meter(meter.id, index).map(encode_meter),
                    counter_data: None,
                };
                if sink(entity(v1::entity::Entity::MeterEntry(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn read_direct_meters(
        &self,
        device: &dyn Device,
        state: &ControlState,
        given: &v1::DirectMeterEntry,
        sink: EntitySink<'_>,
    ) -> ReadFlow {
        if given.counter_data.is_some() {
            return Err(no_color_counters("direct meters"));
        }
        let has = |table: &ir::Table| table.direct_meter.is_some();
        let show = |entry: &DeviceEntry, key: v1::TableEntry| {
            let config = entry.entry.meter().map(encode_meter);
            let message = v1::DirectMeterEntry { table_entry: Some(key), config, counter_data: None };
            v1::entity::Entity::DirectMeterEntry(message)
        };
        let resource = DirectResource { values: EntryValues::default(), is_in: &has, refuse: &no_meter };
        self.read_direct((device, state), given.table_entry.as_ref(), &resource, &show, sink)
    }
}
