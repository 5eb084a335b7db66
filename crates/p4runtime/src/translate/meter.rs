//! `MeterEntry` and `DirectMeterEntry`: two rates and three colours (RFC 2698).

use super::counter::{elements, for_each, index, index_message, table_entry, wanted};
use super::schema::{Schema, TableSchema, find};
use super::update::only_modify;
use super::{Flow, Sink, entity};
use crate::Refusal;
use crate::proto::v1;
use entries::{Entry, MeterConfig, State, Update, UpdateKind};
use std::ops::ControlFlow;

/// A meter's configuration; that the peak rate is not below the committed one, and that bursts let packets pass, is looked at when it is
/// applied.
pub(super) fn config(given: &v1::MeterConfig, place: &dyn Fn() -> String) -> Result<MeterConfig, Refusal> {
    let number = |value: i64, what: &str| {
        u64::try_from(value)
            .map_err(|_| Refusal::invalid(format!("{}: the meter's {what} is {value}; it cannot be negative", place())))
    };
    if given.eburst != 0 {
        return Err(Refusal::invalid(format!(
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

pub(super) fn message(config: &MeterConfig) -> v1::MeterConfig {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    v1::MeterConfig {
        cir: number(config.cir),
        cburst: number(config.cburst),
        pir: number(config.pir),
        pburst: number(config.pburst),
        eburst: 0,
    }
}

/// Packets are not counted by colour.
pub(super) fn no_colours(name: &str) -> Refusal {
    Refusal::unimplemented(format!("{name}: there are no counters for a meter's colours; leave them out"))
}

fn no_meter(table: &TableSchema) -> Refusal {
    Refusal::invalid(format!("table {}: it has no direct meter", table.name))
}

impl Schema {
    pub(super) fn meter_write(&self, kind: UpdateKind, given: &v1::MeterEntry) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a meter")?;
        let meter = find(&self.meters, given.meter_id, "meter")?;
        if given.counter_data.is_some() {
            return Err(no_colours(&meter.name));
        }
        let index = index(meter, given.index.as_ref())?;
        let config = given.config.as_ref().map(|given| config(given, &|| meter.name.clone())).transpose()?;
        for_each(meter, index, |index| Update::Meter(meter.id, index, config))
    }

    pub(super) fn direct_meter_write(
        &self,
        kind: UpdateKind,
        given: &v1::DirectMeterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a direct meter")?;
        let (table, declared, id) = self.entry_id(table_entry(given.table_entry.as_ref())?)?;
        if declared.direct_meter.is_none() {
            return Err(no_meter(table));
        }
        let place = || format!("table {}", table.name);
        if given.counter_data.is_some() {
            return Err(no_colours(&place()));
        }
        let config = given.config.as_ref().map(|given| config(given, &place)).transpose()?;
        Ok(vec![Update::DirectMeter(id, config)])
    }

    pub(super) fn read_meters(&self, state: &State, given: &v1::MeterEntry, sink: Sink<'_>) -> Flow {
        for (meter, index) in wanted(&self.meters, given.meter_id, given.index.as_ref(), "meter")? {
            if given.counter_data.is_some() {
                return Err(no_colours(&meter.name));
            }
            for index in elements(meter, index) {
                let message = v1::MeterEntry {
                    meter_id: meter.number,
                    index: index_message(index),
                    config: state.meter(meter.id, index).map(message),
                    counter_data: None,
                };
                if sink(entity(v1::entity::Entity::MeterEntry(message))).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn read_direct_meters(&self, state: &State, given: &v1::DirectMeterEntry, sink: Sink<'_>) -> Flow {
        if given.counter_data.is_some() {
            return Err(no_colours("direct meters"));
        }
        let has = |table: &ir::Table| table.direct_meter.is_some();
        let show = |_: &TableSchema, entry: &Entry, key: v1::TableEntry| {
            let config = entry.meter().map(message);
            let message = v1::DirectMeterEntry { table_entry: Some(key), config, counter_data: None };
            v1::entity::Entity::DirectMeterEntry(message)
        };
        self.read_direct(state, given.table_entry.as_ref(), &has, &no_meter, &show, sink)
    }
}
