//! [`Arbitration`]: which client is primary of which role (P4Runtime specification, chapter "Client Arbitration and Controller
//! Replication"). A state machine without I/O: it says what is to be told to whom.

use super::role::Scope;
use crate::proto::google::rpc;
use crate::proto::v1::{MasterArbitrationUpdate, Role, Uint128};
use crate::{Code, Refusal};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream, as the server numbers them.
pub type StreamId = u64;

/// A message for a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// For this stream.
    pub stream: StreamId,
    /// The message.
    pub message: MasterArbitrationUpdate,
}

/// What follows of a client's message.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Tell these, and that is all.
    Told(Vec<Advice>),
    /// The sender is primary, but its writes are not accepted yet: tell the others, wait for writes that run to end, then call
    /// [`Arbitration::settle`].
    Handover(Vec<Advice>),
}

/// How many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Roles.
    pub roles: usize,
    /// Live clients of each role.
    pub clients: usize,
}

#[derive(Default)]
struct RoleState {
    /// As the last primary gave it.
    config: Option<prost_types::Any>,
    scope: Option<Arc<Scope>>,
    /// The greatest election id that a client of the role ever had.
    highest: Option<u128>,
    live: BTreeMap<StreamId, Option<u128>>,
    /// Whether writes of the primary are accepted: not while writes of one before may still run.
    settled: bool,
}

impl RoleState {
    fn primary(&self) -> Option<StreamId> {
        let highest = self.highest?;
        self.live.iter().find(|(_, election)| **election == Some(highest)).map(|(stream, _)| *stream)
    }

    fn scope(&self) -> Arc<Scope> {
        self.scope.clone().unwrap_or_else(|| Arc::new(Scope::Full))
    }
}

/// The clients of one device.
pub struct Arbitration {
    device: u64,
    bounds: Bounds,
    roles: BTreeMap<String, RoleState>,
    streams: BTreeMap<StreamId, String>,
}

impl Arbitration {
    /// No clients.
    pub fn new(device: u64, bounds: Bounds) -> Arbitration {
        Arbitration { device, bounds, roles: BTreeMap::new(), streams: BTreeMap::new() }
    }

    /// A client's message.
    ///
    /// # Errors
    /// The stream is to be ended with the refusal, and [`Arbitration::leave`] called if it was live: `NOT_FOUND` (another device),
    /// `FAILED_PRECONDITION` (another device or role than before), `INVALID_ARGUMENT` (the election id is in use, the role's config
    /// can't be understood), `RESOURCE_EXHAUSTED` (too many clients or roles).
    pub fn claim(&mut self, stream: StreamId, update: &MasterArbitrationUpdate) -> Result<Step, Refusal> {
        let (name, config) = role_of(update)?;
        self.check_identity(stream, update.device_id, &name)?;
        let scope = Arc::new(Scope::read(config.as_ref())?);
        let election = update.election_id.map(election_of);
        if let (Some(role), Some(id)) = (self.roles.get(&name), election)
            && role.live.iter().any(|(other, theirs)| *other != stream && *theirs == Some(id))
        {
            return Err(Refusal::invalid(format!(
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
            role.settled = false;
            return Ok(Step::Handover(self.advise(&name, |to| to != stream)));
        }
        Ok(Step::Told(self.advise(&name, |to| was_primary || to == stream)))
    }

    fn check_identity(&self, stream: StreamId, device: u64, name: &str) -> Result<(), Refusal> {
        let live = self.streams.get(&stream);
        if device != self.device {
            let code = if live.is_some() { Code::FailedPrecondition } else { Code::NotFound };
            return Err(Refusal::new(code, no_device(device, self.device)));
        }
        match live {
            Some(before) if before != name => Err(Refusal::new(
                Code::FailedPrecondition,
                format!("the stream is of role \"{before}\"; open another one for role \"{name}\""),
            )),
            _ => Ok(()),
        }
    }

    fn check_bounds(&self, stream: StreamId, name: &str) -> Result<(), Refusal> {
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
        Err(Refusal::new(
            Code::ResourceExhausted,
            format!("there are {full} already; close a stream that is not needed"),
        ))
    }

    /// After the writes that ran have ended: accepts writes of the stream if it still is primary, which is to be told so.
    pub fn settle(&mut self, stream: StreamId) -> Option<Advice> {
        let name = self.streams.get(&stream)?.clone();
        let role = self.roles.get_mut(&name)?;
        if role.primary() != Some(stream) {
            return None;
        }
        role.settled = true;
        self.advise(&name, |to| to == stream).pop()
    }

    /// A stream has ended. The others of its role are told if it was primary.
    pub fn leave(&mut self, stream: StreamId) -> Vec<Advice> {
        let Some(name) = self.streams.remove(&stream) else { return Vec::new() };
        let Some(role) = self.roles.get_mut(&name) else { return Vec::new() };
        let was_primary = role.primary() == Some(stream);
        role.live.remove(&stream);
        if role.live.is_empty() && role.highest.is_none() {
            // Nothing to be remembered.
            self.roles.remove(&name);
            return Vec::new();
        }
        if was_primary { self.advise(&name, |_| true) } else { Vec::new() }
    }

    /// What the role may do, if this is its primary and its writes are accepted.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device, or no such role. `PERMISSION_DENIED`: not the primary.
    pub fn check(&self, device: u64, role: &str, election: Option<Uint128>) -> Result<Arc<Scope>, Refusal> {
        self.check_device(device)?;
        let denied = |why: String| Err(Refusal::new(Code::PermissionDenied, why));
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
            Some(_) if !state.settled => {
                denied("writes of the last primary still run; wait to be told that you are primary".into())
            }
            Some(_) => Ok(state.scope()),
        }
    }

    /// What a role may read.
    ///
    /// # Errors
    /// `NOT_FOUND`: another device, or no such role.
    pub fn reader(&self, device: u64, role: &str) -> Result<Arc<Scope>, Refusal> {
        self.check_device(device)?;
        match (self.roles.get(role), role) {
            (Some(state), _) => Ok(state.scope()),
            (None, "") => Ok(Arc::new(Scope::Full)),
            (None, _) => Err(no_role(role)),
        }
    }

    /// Whether requests name this device.
    ///
    /// # Errors
    /// `NOT_FOUND` if it is another one.
    pub fn check_device(&self, device: u64) -> Result<(), Refusal> {
        if device == self.device { Ok(()) } else { Err(Refusal::not_found(no_device(device, self.device))) }
    }

    /// Primaries and what their roles may do.
    pub fn primaries(&self) -> impl Iterator<Item = (StreamId, Arc<Scope>)> {
        self.roles.values().filter_map(|role| Some((role.primary()?, role.scope())))
    }

    /// What the stream's role may do, if the stream is primary.
    pub fn primary_scope(&self, stream: StreamId) -> Option<Arc<Scope>> {
        let role = self.roles.get(self.streams.get(&stream)?)?;
        (role.primary() == Some(stream)).then(|| role.scope())
    }

    /// A stream's role, its election id, and whether it is primary; `None` before it has said who it is.
    pub fn standing(&self, stream: StreamId) -> Option<(&str, Option<u128>, bool)> {
        let name = self.streams.get(&stream)?;
        let role = self.roles.get(name)?;
        Some((name, role.live.get(&stream).copied().flatten(), role.primary() == Some(stream)))
    }

    /// The role whose primary the stream is.
    pub fn role_of_primary(&self, stream: StreamId) -> Option<&str> {
        let name = self.streams.get(&stream)?;
        (self.roles.get(name)?.primary() == Some(stream)).then_some(name)
    }

    fn advise(&self, name: &str, to: impl Fn(StreamId) -> bool) -> Vec<Advice> {
        let Some(role) = self.roles.get(name) else { return Vec::new() };
        let primary = role.primary();
        let advice = |stream: StreamId| {
            let (code, message) = match primary {
                Some(primary) if primary == stream => (rpc::Code::Ok, "you are primary"),
                Some(_) => (rpc::Code::AlreadyExists, "another client is primary"),
                None => (rpc::Code::NotFound, "there is no primary"),
            };
            let status = rpc::Status { code: code as i32, message: message.into(), details: Vec::new() };
            let message = MasterArbitrationUpdate {
                device_id: self.device,
                // The default role is no role at all.
                role: (!name.is_empty()).then(|| Role {
                    name: name.into(),
                    config: role.config.clone(),
                    ..Role::default()
                }),
                election_id: role.highest.map(uint128),
                status: Some(status),
            };
            Advice { stream, message }
        };
        role.live.keys().copied().filter(|stream| to(*stream)).map(advice).collect()
    }
}

fn role_of(update: &MasterArbitrationUpdate) -> Result<(String, Option<prost_types::Any>), Refusal> {
    let Some(role) = &update.role else { return Ok((String::new(), None)) };
    #[allow(deprecated)]
    let id = role.id;
    if id != 0 {
        return Err(Refusal::invalid(format!("role id {id}: roles have names since P4Runtime 1.4; set `name`")));
    }
    if role.name.is_empty() && role.config.is_some() {
        return Err(Refusal::invalid(
            "the default role has full access and no config; name the role, or leave the config out",
        ));
    }
    Ok((role.name.clone(), role.config.clone()))
}

fn no_device(asked: u64, own: u64) -> String {
    format!("there is no device {asked}; this one has id {own}")
}

fn no_role(role: &str) -> Refusal {
    Refusal::not_found(format!("there is no role \"{role}\"; a client makes it with a MasterArbitrationUpdate"))
}

/// An election id as a number.
pub fn election_of(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

/// A number as an election id.
pub fn uint128(id: u128) -> Uint128 {
    Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

#[cfg(test)]
#[path = "arbitration_tests.rs"]
mod tests;
