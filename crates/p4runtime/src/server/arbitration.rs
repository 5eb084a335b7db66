//! [`Arbitration`]: which client is primary of which role (P4Runtime specification, chapter "Client
//! Arbitration and Controller Replication"). It is a state machine without I/O, which returns the
//! messages to send.

use super::role::RoleScope;
use crate::proto::google::rpc;
use crate::proto::v1::{MasterArbitrationUpdate, Role, Uint128};
use crate::{Code, P4RuntimeError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stream number assigned by the server.
pub type StreamId = u64;

/// Arbitration update to send to a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct ArbitrationMessage {
    /// Receiving stream.
    pub stream: StreamId,
    /// The message.
    pub message: MasterArbitrationUpdate,
}

/// Effect of a client's message.
#[derive(Clone, Debug, PartialEq)]
pub enum ArbitrationEffect {
    /// Send these messages.
    Messages(Vec<ArbitrationMessage>),
    /// The sender is primary, but its writes are not accepted yet. The caller sends these messages
    /// to the others, waits until the running writes have ended, and calls
    /// [`Arbitration::accept_writes`].
    Handover(Vec<ArbitrationMessage>),
}

/// Limits of arbitration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArbitrationLimits {
    /// Maximum number of roles.
    pub roles: usize,
    /// Maximum number of live clients of each role.
    pub clients: usize,
}

#[derive(Default)]
struct RoleState {
    /// Config set by the last primary.
    config: Option<prost_types::Any>,
    scope: Option<Arc<RoleScope>>,
    /// Highest election id that any client of the role has had.
    highest: Option<u128>,
    live: BTreeMap<StreamId, Option<u128>>,
    /// Whether writes of the primary are accepted, which is false while writes of the previous
    /// primary can still run.
    accepts_writes: bool,
}

impl RoleState {
    fn primary(&self) -> Option<StreamId> {
        let highest = self.highest?;
        self.live.iter().find(|(_, election)| **election == Some(highest)).map(|(stream, _)| *stream)
    }

    fn scope(&self) -> Arc<RoleScope> {
        self.scope.clone().unwrap_or_else(|| Arc::new(RoleScope::Full))
    }
}

/// Arbitration of the clients of one device.
pub struct Arbitration {
    device: u64,
    bounds: ArbitrationLimits,
    roles: BTreeMap<String, RoleState>,
    streams: BTreeMap<StreamId, String>,
}

impl Arbitration {
    /// Creates a state without clients.
    pub fn new(device: u64, bounds: ArbitrationLimits) -> Arbitration {
        Arbitration { device, bounds, roles: BTreeMap::new(), streams: BTreeMap::new() }
    }

    /// Processes a client's arbitration update.
    ///
    /// # Errors
    /// The caller ends the stream with the error and calls [`Arbitration::remove_stream`] if it was
    /// live. `NOT_FOUND`: another device. `FAILED_PRECONDITION`: another device or role than
    /// before. `INVALID_ARGUMENT`: the election id is in use or the role's config is invalid.
    /// `RESOURCE_EXHAUSTED`: too many clients or roles.
    pub fn handle_update(
        &mut self,
        stream: StreamId,
        update: &MasterArbitrationUpdate,
    ) -> Result<ArbitrationEffect, P4RuntimeError> {
        let (name, config) = role_of(update)?;
        self.check_identity(stream, update.device_id, &name)?;
        let scope = Arc::new(RoleScope::read(config.as_ref())?);
        let election = update.election_id.map(election_of);
        if let (Some(role), Some(id)) = (self.roles.get(&name), election)
            && role.live.iter().any(|(other, used)| *other != stream && *used == Some(id))
        {
            return Err(P4RuntimeError::invalid(format!(
                "election id {id} is in use by another client of role \"{name}\"; give each client one of its own"
            )));
        }
        self.check_bounds(stream, &name)?;
        self.streams.insert(stream, name.clone());
        let role = self.roles.entry(name.clone()).or_default();
        let was_primary = role.primary() == Some(stream);
        role.live.insert(stream, election);
        if election.is_some() && election >= role.highest {
            role.highest = election;
            (role.config, role.scope) = (config, Some(scope));
            role.accepts_writes = false;
            return Ok(ArbitrationEffect::Handover(self.messages_to(&name, |receiver| receiver != stream)));
        }
        Ok(ArbitrationEffect::Messages(self.messages_to(&name, |receiver| was_primary || receiver == stream)))
    }

    fn check_identity(&self, stream: StreamId, device: u64, name: &str) -> Result<(), P4RuntimeError> {
        let live = self.streams.get(&stream);
        if device != self.device {
            let code = if live.is_some() { Code::FailedPrecondition } else { Code::NotFound };
            return Err(P4RuntimeError::new(code, no_device(device, self.device)));
        }
        match live {
            Some(before) if before != name => Err(P4RuntimeError::new(
                Code::FailedPrecondition,
                format!("the stream is of role \"{before}\"; open another one for role \"{name}\""),
            )),
            _ => Ok(()),
        }
    }

    fn check_bounds(&self, stream: StreamId, name: &str) -> Result<(), P4RuntimeError> {
        if self.streams.contains_key(&stream) {
            return Ok(());
        }
        let full = match self.roles.get(name) {
            Some(role) if role.live.len() >= self.bounds.clients => {
                format!("{} clients of role \"{name}\"", self.bounds.clients)
            }
            None if self.roles.len() >= self.bounds.roles => format!("{} roles", self.bounds.roles),
            _ => return Ok(()),
        };
        Err(P4RuntimeError::new(
            Code::ResourceExhausted,
            format!("the limit of {full} is reached; close a stream that is not needed"),
        ))
    }

    /// Accepts writes of the stream after the earlier writes have ended, if it is still primary.
    /// Returns the message for it.
    pub fn accept_writes(&mut self, stream: StreamId) -> Option<ArbitrationMessage> {
        let name = self.streams.get(&stream)?.clone();
        let role = self.roles.get_mut(&name)?;
        if role.primary() != Some(stream) {
            return None;
        }
        role.accepts_writes = true;
        self.messages_to(&name, |to| to == stream).pop()
    }

    /// Removes a stream that has ended. If it was primary, returns messages for the others of its
    /// role.
    pub fn remove_stream(&mut self, stream: StreamId) -> Vec<ArbitrationMessage> {
        let Some(name) = self.streams.remove(&stream) else { return Vec::new() };
        let Some(role) = self.roles.get_mut(&name) else { return Vec::new() };
        let was_primary = role.primary() == Some(stream);
        role.live.remove(&stream);
        if role.live.is_empty() && role.highest.is_none() {
            // The role has no state worth keeping.
            self.roles.remove(&name);
            return Vec::new();
        }
        if was_primary { self.messages_to(&name, |_| true) } else { Vec::new() }
    }

    /// Returns the scope of the role, if this is its primary and its writes are accepted.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device or an unknown role. `PERMISSION_DENIED`: not the primary.
    pub fn check_primary(
        &self,
        device: u64,
        role: &str,
        election: Option<Uint128>,
    ) -> Result<Arc<RoleScope>, P4RuntimeError> {
        self.check_device(device)?;
        let denied = |reason: String| Err(P4RuntimeError::new(Code::PermissionDenied, reason));
        let Some(state) = self.roles.get(role) else {
            return match role {
                "" => denied("there is no primary; become it with a MasterArbitrationUpdate".into()),
                _ => Err(no_role(role)),
            };
        };
        let Some(election) = election.map(election_of) else {
            return denied("the election id is missing, so this is not the primary".into());
        };
        match state.primary() {
            Some(_) if state.highest != Some(election) => denied(format!(
                "election id {election} is not the primary's of role \"{role}\"; become primary with a MasterArbitrationUpdate"
            )),
            None => denied(format!("role \"{role}\" has no primary; become it with a MasterArbitrationUpdate")),
            Some(_) if !state.accepts_writes => {
                denied("writes of the last primary are still in progress; wait for the arbitration update that makes you primary".into())
            }
            Some(_) => Ok(state.scope()),
        }
    }

    /// Returns the scope in which a role can read.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device or an unknown role.
    pub fn read_scope(&self, device: u64, role: &str) -> Result<Arc<RoleScope>, P4RuntimeError> {
        self.check_device(device)?;
        match (self.roles.get(role), role) {
            (Some(state), _) => Ok(state.scope()),
            (None, "") => Ok(Arc::new(RoleScope::Full)),
            (None, _) => Err(no_role(role)),
        }
    }

    /// Checks the device id of a request.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is another device.
    pub fn check_device(&self, device: u64) -> Result<(), P4RuntimeError> {
        if device == self.device { Ok(()) } else { Err(P4RuntimeError::not_found(no_device(device, self.device))) }
    }

    /// Returns the primaries and the scopes of their roles.
    pub fn primaries(&self) -> impl Iterator<Item = (StreamId, Arc<RoleScope>)> {
        self.roles.values().filter_map(|role| Some((role.primary()?, role.scope())))
    }

    /// Returns the scope of the stream's role, if the stream is primary.
    pub fn primary_scope(&self, stream: StreamId) -> Option<Arc<RoleScope>> {
        let role = self.roles.get(self.streams.get(&stream)?)?;
        (role.primary() == Some(stream)).then(|| role.scope())
    }

    /// Returns a stream's role, its election id, and whether it is primary; `None` before its first
    /// arbitration update.
    pub fn stream_status(&self, stream: StreamId) -> Option<(&str, Option<u128>, bool)> {
        let name = self.streams.get(&stream)?;
        let role = self.roles.get(name)?;
        Some((name, role.live.get(&stream).copied().flatten(), role.primary() == Some(stream)))
    }

    /// Returns the role that the stream is primary of.
    pub fn role_of_primary(&self, stream: StreamId) -> Option<&str> {
        let name = self.streams.get(&stream)?;
        (self.roles.get(name)?.primary() == Some(stream)).then_some(name)
    }

    /// Returns the arbitration messages to the clients of a role that `is_receiver` selects.
    fn messages_to(&self, name: &str, is_receiver: impl Fn(StreamId) -> bool) -> Vec<ArbitrationMessage> {
        let Some(role) = self.roles.get(name) else { return Vec::new() };
        let primary = role.primary();
        let message_for = |stream: StreamId| {
            let (code, message) = match primary {
                Some(primary) if primary == stream => (rpc::Code::Ok, "you are primary"),
                Some(_) => (rpc::Code::AlreadyExists, "another client is primary"),
                None => (rpc::Code::NotFound, "there is no primary"),
            };
            let status = rpc::Status { code: code as i32, message: message.into(), details: Vec::new() };
            let message = MasterArbitrationUpdate {
                device_id: self.device,
                // The default role is encoded as an absent role.
                role: (!name.is_empty()).then(|| Role {
                    name: name.into(),
                    config: role.config.clone(),
                    ..Role::default()
                }),
                election_id: role.highest.map(uint128),
                status: Some(status),
            };
            ArbitrationMessage { stream, message }
        };
        role.live.keys().copied().filter(|stream| is_receiver(*stream)).map(message_for).collect()
    }
}

fn role_of(update: &MasterArbitrationUpdate) -> Result<(String, Option<prost_types::Any>), P4RuntimeError> {
    let Some(role) = &update.role else { return Ok((String::new(), None)) };
    #[allow(deprecated)]
    let id = role.id;
    if id != 0 {
        return Err(P4RuntimeError::invalid(format!("role id {id}: roles have names since P4Runtime 1.4; set `name`")));
    }
    if role.name.is_empty() && role.config.is_some() {
        return Err(P4RuntimeError::invalid(
            "the default role has full access and no config; name the role, or leave the config out",
        ));
    }
    Ok((role.name.clone(), role.config.clone()))
}

fn no_device(asked: u64, own: u64) -> String {
    format!("there is no device {asked}; this one has id {own}")
}

fn no_role(role: &str) -> P4RuntimeError {
    P4RuntimeError::not_found(format!("there is no role \"{role}\"; a client makes it with a MasterArbitrationUpdate"))
}

/// Converts an election id to a number.
pub fn election_of(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

/// Converts a number to an election id.
pub fn uint128(id: u128) -> Uint128 {
    Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

#[cfg(test)]
#[path = "arbitration_tests.rs"]
mod tests;
