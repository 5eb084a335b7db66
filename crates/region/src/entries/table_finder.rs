//! Finds the gateway program's tables and actions by name.

use entries::{ActionSpec, TableEntry};
use ir::{ActionCall, ActionId, ExternId, KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;

/// Error: a program lacks an object of the gateway program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the program `{program}` has no {what}; a region file needs programs/gateway/gateway.p4 or a program with its tables (programs/gateway/TABLES.md)"
)]
pub struct NotAGateway {
    /// Name of the program.
    pub program: String,
    /// The missing object.
    pub what: String,
}

/// A table and the actions that its entries use.
#[derive(Clone, Debug)]
pub(super) struct GatewayTable<const N: usize> {
    pub(super) id: TableId,
    pub(super) actions: [ActionId; N],
}

impl<const N: usize> GatewayTable<N> {
    /// Returns an entry with the action of index `action`.
    pub(super) fn entry(&self, keys: Vec<KeyMatch>, action: usize, args: Vec<BigUint>) -> TableEntry {
        TableEntry::new(self.id, keys, self.call(action, args))
    }
    /// Returns a call of the action of index `action`.
    pub(super) fn call(&self, action: usize, args: Vec<BigUint>) -> ActionSpec {
        ActionSpec::Call(ActionCall { action: self.actions[action], args })
    }
}

/// The tables of both IP versions, IPv4 first.
pub(super) type FamilyPair<const N: usize> = [GatewayTable<N>; 2];

/// Name of the control that contains all tables.
const CONTROL: &str = "gateway";

/// Finds tables, actions and counters of the gateway by their names.
pub(super) struct GatewayTableFinder<'a>(pub(super) &'a Pipeline);

impl GatewayTableFinder<'_> {
    pub(super) fn table<const N: usize>(
        &self,
        name: &str,
        keys: usize,
        actions: &[(&str, usize); N],
    ) -> Result<GatewayTable<N>, NotAGateway> {
        let full = format!("{CONTROL}.{name}");
        let found = self.0.tables.iter().find(|(_, t)| t.preamble.name == full && t.keys.len() == keys);
        let (id, table) = found.ok_or_else(|| self.missing(format!("table `{full}` with {keys} keys")))?;
        let mut ids = [ActionId(0); N];
        for (slot, (action, params)) in ids.iter_mut().zip(actions) {
            let is_it = |a: ActionId| {
                let a = &self.0.actions[a];
                a.preamble.name.rsplit('.').next() == Some(action) && a.params.len() == *params
            };
            let found = table.actions.iter().map(|a| a.action).find(|a| is_it(*a));
            *slot = found
                .ok_or_else(|| self.missing(format!("action `{action}` with {params} parameters in table `{full}`")))?;
        }
        Ok(GatewayTable { id, actions: ids })
    }

    pub(super) fn pair<const N: usize>(
        &self,
        name: &str,
        keys: usize,
        actions: &[(&str, usize); N],
    ) -> Result<FamilyPair<N>, NotAGateway> {
        Ok([self.table(&format!("{name}4"), keys, actions)?, self.table(&format!("{name}6"), keys, actions)?])
    }

    pub(super) fn counter(&self, name: &str) -> Result<ExternId, NotAGateway> {
        let full = format!("{CONTROL}.{name}");
        let found = self.0.externs.iter().find(|(_, e)| e.preamble.name == full);
        found.map(|(id, _)| id).ok_or_else(|| self.missing(format!("counter `{full}`")))
    }

    fn missing(&self, what: String) -> NotAGateway {
        NotAGateway { program: self.0.name.clone(), what }
    }
}
