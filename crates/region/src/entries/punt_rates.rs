//! Rates of the gateway's meter for packets to the host.

use super::GatewayApi;
use crate::check::ResolvedRegion;
use entries::{ControlState, MeterConfig};
use ir::ExternId;

/// A configuration of one cell of a meter: the meter, the index, and the rates.
pub type MeterSetting = (ExternId, u64, Option<MeterConfig>);

/// Returns the configuration of each kind of packets for the host. Without an uplink with a host
/// side, no packet goes there, and the kinds have no rates.
pub fn punt_meters(region: &ResolvedRegion, api: &GatewayApi) -> Vec<MeterSetting> {
    let has_host = region.file.host_uplinks().next().is_some();
    let rates = region.file.gateway.punt_rates.clone().unwrap_or_default();
    let config = |rate: u32| {
        let rate = u64::from(rate);
        MeterConfig { cir: rate, cburst: rate, pir: rate, pburst: rate }
    };
    let index_of = |kind: &str| api.punt_reasons.iter().find(|(name, _)| name == kind).map(|(_, index)| *index);
    let Some(meter) = api.punt_rate else { return Vec::new() };
    rates.by_kind().filter_map(|(kind, rate)| Some((meter, index_of(kind)?, has_host.then(|| config(rate))))).collect()
}

/// Returns the settings that differ from those in force.
pub(super) fn changed_meters(state: &ControlState, region: &ResolvedRegion, api: &GatewayApi) -> Vec<MeterSetting> {
    let mut settings = punt_meters(region, api);
    settings.retain(|(meter, index, config)| state.meter(*meter, *index) != config.as_ref());
    settings
}
