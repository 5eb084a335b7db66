//! Commands for counters, registers and meters.

use super::device::ObjectCell;
use super::resolve;
use super::run::{Runner, StfResult, text};
use super::script::*;
use entries::{Counter, MeterConfig, StateUpdate};
use ir::{ExternId, ExternKind, Pipeline};
use num_bigint::BigUint;
use num_traits::ToPrimitive;

/// Maximum number of meters that `meter_array_set_rates` sets.
const MAX_METERS: u64 = 1 << 20;

impl Runner<'_> {
    pub(super) fn cell(&self, cell: &CellText) -> StfResult<ObjectCell> {
        Ok(match cell {
            CellText::Index(index) => ObjectCell::Index(*index),
            CellText::Handle(handle) => ObjectCell::Entry(self.entry_id(handle)?),
        })
    }

    /// Runs a command that checks, reads or writes a counter. A read only notes the value.
    pub(super) fn counter(&mut self, command: &Command) -> StfResult {
        let is_counter =
            |kind: &ExternKind| matches!(kind, ExternKind::Counter { .. } | ExternKind::DirectCounter { .. });
        let find =
            |pipeline: &Pipeline, name: &str| resolve::object(pipeline, "counter", name, is_counter).map_err(text);
        match command {
            Command::CheckCounter { name, cell, check } => {
                let cell = self.cell(cell)?;
                let count = self.device.counter(find(self.device.pipeline(), name)?, &cell)?;
                let Some((unit, comparison, bound)) = check else {
                    self.note(format!("{name}: {} packets, {} bytes", count.packets, count.bytes));
                    return Ok(());
                };
                let (value, unit) = match unit {
                    CountUnit::Packets => (count.packets, "packets"),
                    CountUnit::Bytes => (count.bytes, "bytes"),
                };
                let symbol = comparison.symbol();
                self.check(comparison.holds(&value, bound), || {
                    format!("counter {name} has {value} {unit}, expected {symbol} {bound}")
                });
            }
            Command::CounterRead { name, index } => {
                let count = self.device.counter(find(self.device.pipeline(), name)?, &ObjectCell::Index(*index))?;
                self.note(format!("{name}[{index}] = {} packets, {} bytes", count.packets, count.bytes));
            }
            Command::CounterWrite { name, index, packets, bytes } => {
                let counter = find(self.device.pipeline(), name)?;
                self.write(StateUpdate::Counter(counter, *index, Counter { packets: *packets, bytes: *bytes }))?;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn find_register(&self, name: &str) -> StfResult<ExternId> {
        let wanted = |kind: &ExternKind| matches!(kind, ExternKind::Register { .. });
        resolve::object(self.device.pipeline(), "register", name, wanted).map_err(text)
    }

    /// Runs a command that reads, writes or resets a register. A read only notes the value.
    pub(super) fn register(&mut self, command: &Command) -> StfResult {
        match command {
            Command::RegisterRead { name, index } => {
                let leaves = self.device.register(self.find_register(name)?, *index)?;
                let values: Vec<String> = leaves.iter().map(ToString::to_string).collect();
                self.note(format!("{name}[{index}] = {}", values.join(", ")));
                Ok(())
            }
            Command::RegisterWrite { name, index, value } => {
                let register = self.find_register(name)?;
                let ExternKind::Register { elem, .. } = &self.device.pipeline().externs[register].kind else {
                    return Ok(());
                };
                let [ty] = elem.as_slice() else {
                    return Err(format!(
                        "register `{name}` holds {} values an element; register_write sets only one",
                        elem.len()
                    ));
                };
                let bits = resolve::scalar(name, *ty, value).map_err(text)?;
                self.write(StateUpdate::Register(register, Some(*index), vec![bits]))
            }
            Command::RegisterReset { name } => {
                let register = self.find_register(name)?;
                let zeros = match &self.device.pipeline().externs[register].kind {
                    ExternKind::Register { elem, .. } => vec![BigUint::ZERO; elem.len()],
                    _ => Vec::new(),
                };
                self.write(StateUpdate::Register(register, None, zeros))
            }
            _ => Ok(()),
        }
    }

    /// Runs a command that reads or sets the rates of meters, of an array at most `MAX_METERS`.
    pub(super) fn meter(&mut self, command: &Command) -> StfResult {
        let is_meter = |kind: &ExternKind| matches!(kind, ExternKind::Meter { .. } | ExternKind::DirectMeter { .. });
        let find = |pipeline: &Pipeline, name: &str| resolve::object(pipeline, "meter", name, is_meter).map_err(text);
        match command {
            Command::MeterGetRates { name, index } => {
                let rates = self.device.meter(find(self.device.pipeline(), name)?, &ObjectCell::Index(*index))?;
                self.note(match rates {
                    Some(config) => {
                        format!(
                            "{name}[{index}] = {}/s burst {}, peak {}/s burst {}",
                            config.cir, config.cburst, config.pir, config.pburst
                        )
                    }
                    None => format!("{name}[{index}] has no rates"),
                });
                Ok(())
            }
            Command::MeterSetRates { name, cell, rates } => {
                let meter = find(self.device.pipeline(), name)?;
                let cell = self.cell(cell)?;
                let config = Some(meter_config(rates)?);
                self.write(match cell {
                    ObjectCell::Index(index) => StateUpdate::Meter(meter, index, config),
                    ObjectCell::Entry(entry) => StateUpdate::DirectMeter(entry, config),
                })
            }
            Command::MeterArraySetRates { name, rates } => {
                let meter = find(self.device.pipeline(), name)?;
                let ExternKind::Meter { size, .. } = self.device.pipeline().externs[meter].kind else {
                    return Err(format!(
                        "meter `{name}` is direct and has no array; set the rates of an entry by its handle"
                    ));
                };
                let config = meter_config(rates)?;
                let indices = 0..size.min(MAX_METERS);
                self.device.write(indices.map(|index| StateUpdate::Meter(meter, index, Some(config))).collect())
            }
            _ => Ok(()),
        }
    }
}

/// Converts rates in bmv2's form: committed and peak rate, per microsecond.
fn meter_config(rates: &[MeterRate]) -> StfResult<MeterConfig> {
    let per_second = |rate: &MeterRate| (rate.per_microsecond * 1e6).round().to_u64();
    let [committed, peak] = rates else {
        return Err(format!(
            "a meter has two rates, committed and peak, but {} are given; write RATE:BURST RATE:BURST",
            rates.len()
        ));
    };
    let too_large = "a rate does not fit 64 bits; give a smaller one";
    Ok(MeterConfig {
        cir: per_second(committed).ok_or(too_large)?,
        cburst: committed.burst,
        pir: per_second(peak).ok_or(too_large)?,
        pburst: peak.burst,
    })
}
