//! [`RoleScope`]: permissions of a role. Roles are configured by their primary client with a
//! [`RoleConfig`] in `Role.config` (P4Runtime specification, section "Role Config").

use crate::P4RuntimeError;
use crate::proto::terrace::v1::RoleConfig;
use crate::proto::v1;
use crate::proto::v1::entity::Entity as E;
use prost::Message;
use std::collections::BTreeSet;

/// Type URL of a [`RoleConfig`] in an `Any`.
pub const ROLE_CONFIG_URL: &str = "type.googleapis.com/terrace.v1.RoleConfig";

/// Permissions of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleScope {
    /// Everything: the default role, and named ones without a config.
    Full,
    /// The objects and operations of the config.
    Limited {
        /// P4Info ids of the objects.
        ids: BTreeSet<u32>,
        /// Whether the role receives packets.
        packet_in: bool,
        /// Whether the role can send packets.
        packet_out: bool,
        /// Whether the role can write and read multicast groups and clone sessions.
        packet_replication: bool,
    },
}

impl RoleScope {
    /// Decodes the scope from a role's config.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it has another type than [`RoleConfig`] or cannot be decoded.
    pub fn read(config: Option<&prost_types::Any>) -> Result<RoleScope, P4RuntimeError> {
        let Some(config) = config else { return Ok(RoleScope::Full) };
        if config.type_url.rsplit('/').next() != Some("terrace.v1.RoleConfig") {
            return Err(P4RuntimeError::invalid(format!(
                "role config: `{}` is not understood; send {ROLE_CONFIG_URL}, or no config for full access",
                config.type_url
            )));
        }
        let config = RoleConfig::decode(config.value.as_slice())
            .map_err(|error| P4RuntimeError::invalid(format!("role config: not a terrace.v1.RoleConfig: {error}")))?;
        let RoleConfig { ids, packet_in, packet_out, packet_replication } = config;
        Ok(RoleScope::Limited { ids: ids.into_iter().collect(), packet_in, packet_out, packet_replication })
    }

    /// Returns whether an object with this P4Info id is in scope.
    pub fn has(&self, id: u32) -> bool {
        match self {
            RoleScope::Full => true,
            RoleScope::Limited { ids, .. } => ids.contains(&id),
        }
    }

    /// Returns whether the role receives packets.
    pub fn packet_in(&self) -> bool {
        matches!(self, RoleScope::Full | RoleScope::Limited { packet_in: true, .. })
    }

    /// Returns whether the role can send packets.
    pub fn packet_out(&self) -> bool {
        matches!(self, RoleScope::Full | RoleScope::Limited { packet_out: true, .. })
    }

    /// Returns whether an entity is in scope.
    pub fn covers(&self, entity: &v1::Entity) -> bool {
        if *self == RoleScope::Full {
            return true;
        }
        let has_table = |entry: &Option<v1::TableEntry>| entry.as_ref().is_some_and(|entry| self.has(entry.table_id));
        match &entity.entity {
            Some(E::TableEntry(entry)) => self.has(entry.table_id),
            Some(E::DirectCounterEntry(entry)) => has_table(&entry.table_entry),
            Some(E::DirectMeterEntry(entry)) => has_table(&entry.table_entry),
            Some(E::ActionProfileMember(member)) => self.has(member.action_profile_id),
            Some(E::ActionProfileGroup(group)) => self.has(group.action_profile_id),
            Some(E::MeterEntry(entry)) => self.has(entry.meter_id),
            Some(E::CounterEntry(entry)) => self.has(entry.counter_id),
            Some(E::RegisterEntry(entry)) => self.has(entry.register_id),
            Some(E::ValueSetEntry(entry)) => self.has(entry.value_set_id),
            Some(E::DigestEntry(entry)) => self.has(entry.digest_id),
            Some(E::ExternEntry(entry)) => self.has(entry.extern_id),
            Some(E::PacketReplicationEngineEntry(_)) => {
                matches!(self, RoleScope::Limited { packet_replication: true, .. })
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(config: &RoleConfig) -> prost_types::Any {
        prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value: config.encode_to_vec() }
    }

    fn table(table_id: u32) -> v1::Entity {
        v1::Entity { entity: Some(E::TableEntry(v1::TableEntry { table_id, ..Default::default() })) }
    }

    #[test]
    fn no_config_is_full_access() {
        assert_eq!(RoleScope::read(None), Ok(RoleScope::Full));
        assert!(RoleScope::Full.covers(&table(7)) && RoleScope::Full.packet_in() && RoleScope::Full.packet_out());
    }

    #[test]
    fn a_config_lists_what_is_allowed() {
        let scope =
            RoleScope::read(Some(&any(&RoleConfig { ids: vec![7], packet_in: true, ..Default::default() }))).unwrap();
        assert!(scope.covers(&table(7)) && !scope.covers(&table(8)));
        assert!(scope.packet_in() && !scope.packet_out());
        let direct = v1::DirectCounterEntry { table_entry: Some(v1::TableEntry::default()), data: None };
        assert!(!scope.covers(&v1::Entity { entity: Some(E::DirectCounterEntry(direct)) }));
        let replication = E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry::default());
        assert!(!scope.covers(&v1::Entity { entity: Some(replication) }));
    }

    #[test]
    fn other_configs_are_refused() {
        let other = prost_types::Any { type_url: "type.googleapis.com/p4.v1.Index".into(), value: vec![] };
        assert_eq!(RoleScope::read(Some(&other)).unwrap_err().code, crate::Code::InvalidArgument);
        let broken = prost_types::Any { type_url: ROLE_CONFIG_URL.into(), value: vec![0xff] };
        assert_eq!(RoleScope::read(Some(&broken)).unwrap_err().code, crate::Code::InvalidArgument);
    }
}
