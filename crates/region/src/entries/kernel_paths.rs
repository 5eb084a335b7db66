//! Entries of the kernel's routes and neighbours, beside those of the region file.
//!
//! They share the tables `underlay_route_*` and `next_hop` with the region file's. An entry is the
//! kernel's if its next hop has an id from [`FIRST_KERNEL_HOP`] on; no entry of the file has one.

use super::gateway_tables::{GatewayApi, exact, family, lpm};
use super::underlay::{FORWARD, LIMITED, PATH_DOWN, RESOLVE, VIA_GROUP, VIA_NEXT_HOP};
use entries::{ActionSpec, ControlState, EntryError, PackedEntry, StateUpdate, StoredEntry, UpdateKind, WriteBatch};
use ir::{KeyMatch, TableId};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::collections::{HashMap, HashSet};
use underlay::{FIRST_KERNEL_HOP, HopAction, PlannedHops, PlannedRoutes};

/// Explanations of the kernel's entries, by table and key words.
pub type KernelSources = HashMap<(TableId, Vec<u64>), String>;

/// Returns the writes that bring the kernel's entries of the tables to what is planned, as one batch.
/// `routes`: `None` leaves the routes as they are. Adds the explanations of the entries to `sources`.
/// A route of the region file to the same destination stays.
///
/// # Errors
/// A table cannot express an entry.
pub fn kernel_changes(
    state: &ControlState,
    api: &GatewayApi,
    routes: Option<&PlannedRoutes>,
    hops: &PlannedHops,
    sources: &mut KernelSources,
) -> Result<WriteBatch, Box<EntryError>> {
    let mut batch = WriteBatch::default();
    let mut wanted: HashMap<TableId, HashSet<Vec<u64>>> = HashMap::new();
    let mut add = |entry: entries::TableEntry, source: &str| -> Result<(), Box<EntryError>> {
        let packed = state.pack_entry(UpdateKind::Insert, &entry).map_err(Box::new)?;
        wanted.entry(packed.table).or_default().insert(packed.key().to_vec());
        sources.insert((packed.table, packed.key().to_vec()), source.to_owned());
        let kind = match state.get_entry(packed.table, packed.key(), packed.priority) {
            None => UpdateKind::Insert,
            Some(present) if present.action() == packed.action() => return Ok(()),
            Some(present) if !api.is_of_kernel(state, packed.table, present) => return Ok(()),
            Some(_) => UpdateKind::Modify,
        };
        batch.updates.push(StateUpdate::Packed(kind, packed));
        Ok(())
    };
    for (id, (action, source)) in &hops.next_hops {
        let (action, arguments) = hop_call(action);
        add(api.next_hop.entry(vec![exact(*id)], action, arguments), source)?;
    }
    for (destination, route) in routes.iter().flat_map(|routes| &routes.routes) {
        let (mut action, mut arguments) = match route.count {
            1 => (VIA_NEXT_HOP, vec![BigUint::from(route.first)]),
            count => (VIA_GROUP, vec![BigUint::from(route.first), BigUint::from(count - 1)]),
        };
        if let Some(mtu) = route.mtu_bytes {
            action += LIMITED;
            arguments.push(BigUint::from(mtu));
        }
        let table = &api.underlay_route[family(destination.addr())];
        add(table.entry(vec![lpm(*destination)], action, arguments), &route.source)?;
    }
    if routes.is_some() {
        let tables = api.underlay_route.iter().map(|table| table.id).chain([api.next_hop.id]);
        for table in tables {
            let wanted = wanted.get(&table);
            for entry in state.entries(table).filter(|entry| api.is_of_kernel(state, table, entry)) {
                if wanted.is_none_or(|wanted| !wanted.contains(entry.key())) {
                    sources.remove(&(table, entry.key().to_vec()));
                    let gone = PackedEntry::from_stored(UpdateKind::Delete, table, entry);
                    batch.updates.push(StateUpdate::Packed(UpdateKind::Delete, gone));
                }
            }
        }
    }
    Ok(batch)
}

/// Returns the index of the action of a next hop, and its arguments.
fn hop_call(action: &HopAction) -> (usize, Vec<BigUint>) {
    let mac = |mac: &[u8; 6]| BigUint::from_bytes_be(mac);
    match action {
        HopAction::Forward { port, mac: own, neighbour_mac, mtu_bytes } => {
            (FORWARD, vec![BigUint::from(*port), mac(own), mac(neighbour_mac), BigUint::from(*mtu_bytes)])
        }
        HopAction::Resolve { port } => (RESOLVE, vec![BigUint::from(*port)]),
        HopAction::PathDown => (PATH_DOWN, vec![]),
    }
}

impl GatewayApi {
    /// Returns whether an entry was made from the kernel's routes and neighbours.
    pub fn is_of_kernel(&self, state: &ControlState, table: TableId, entry: &StoredEntry) -> bool {
        let id = if table == self.next_hop.id {
            match state.layout(table).unpack(entry.key()).into_iter().next() {
                Some(KeyMatch::Exact(id)) => id.to_u32(),
                _ => None,
            }
        } else if self.underlay_route.iter().any(|route| route.id == table) {
            match entry.action().to_spec(state.pipeline()) {
                ActionSpec::Call(call) => call.args.first().and_then(BigUint::to_u32),
                _ => None,
            }
        } else {
            None
        };
        id.is_some_and(|id| id >= FIRST_KERNEL_HOP)
    }
}
