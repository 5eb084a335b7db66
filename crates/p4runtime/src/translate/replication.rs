//! `PacketReplicationEngineEntry`: multicast groups and clone sessions.

use super::{EntitySink, ReadFlow, entity};
use crate::proto::v1;
use crate::proto::v1::packet_replication_engine_entry::Type as P;
use crate::{P4RuntimeError, values};
use entries::{CloneSession, ControlState, MulticastGroup, Replica, StateUpdate, UpdateKind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Width in bits of a port number.
pub(super) const PORT_WIDTH: u32 = 32;

pub(super) fn write(
    kind: UpdateKind,
    given: &v1::PacketReplicationEngineEntry,
) -> Result<Vec<StateUpdate>, P4RuntimeError> {
    match &given.r#type {
        Some(P::MulticastGroupEntry(group)) => Ok(vec![StateUpdate::Multicast(kind, multicast(kind, group)?)]),
        Some(P::CloneSessionEntry(session)) => Ok(vec![StateUpdate::Clone(kind, clone_session(kind, session)?)]),
        None => Err(P4RuntimeError::invalid("neither a multicast group nor a clone session is given; set one of them")),
    }
}

fn multicast(kind: UpdateKind, given: &v1::MulticastGroupEntry) -> Result<MulticastGroup, P4RuntimeError> {
    let id = numbered("multicast group", given.multicast_group_id)?;
    if kind == UpdateKind::Delete {
        return Ok(MulticastGroup { id, replicas: Vec::new() });
    }
    let what = format!("multicast group {id}");
    if !given.metadata.is_empty() {
        return Err(P4RuntimeError::unimplemented(format!("{what}: metadata of a group is not kept; leave it out")));
    }
    Ok(MulticastGroup { id, replicas: replicas(&what, &given.replicas)? })
}

/// Decodes a clone session; for a deletion, its id alone.
fn clone_session(kind: UpdateKind, message: &v1::CloneSessionEntry) -> Result<CloneSession, P4RuntimeError> {
    let id = numbered("clone session", message.session_id)?;
    if kind == UpdateKind::Delete {
        return Ok(CloneSession { id, ..CloneSession::default() });
    }
    let owner = format!("clone session {id}");
    let packet_length = u32::try_from(message.packet_length_bytes).map_err(|_| {
        P4RuntimeError::invalid(format!("{owner}: packet_length_bytes is negative; give 0 for whole packets"))
    })?;
    if message.class_of_service > u32::from(u8::MAX) {
        return Err(P4RuntimeError::invalid(format!(
            "{owner}: class of service {} is not from 0 to 255",
            message.class_of_service
        )));
    }
    Ok(CloneSession {
        id,
        replicas: replicas(&owner, &message.replicas)?,
        multicast_group: None,
        packet_length,
        class_of_service: message.class_of_service,
    })
}

fn numbered(what: &str, id: u32) -> Result<u32, P4RuntimeError> {
    match id {
        0 => Err(P4RuntimeError::invalid(format!("{what} 0 is reserved for all of them; number them from 1"))),
        id => Ok(id),
    }
}

/// Decodes replicas, each a port with an instance. `owner` names the group or session in errors.
fn replicas(owner: &str, messages: &[v1::Replica]) -> Result<Vec<Replica>, P4RuntimeError> {
    let mut seen = BTreeSet::new();
    let mut replicas = Vec::with_capacity(messages.len());
    for replica in messages {
        let port = port(owner, replica.port_kind.as_ref())?;
        if !replica.backup_replicas.is_empty() {
            return Err(P4RuntimeError::unimplemented(format!(
                "{owner}, port {port}: backup replicas are not supported; leave them out, and change the group when a port goes down"
            )));
        }
        let instance = u16::try_from(replica.instance).map_err(|_| {
            P4RuntimeError::invalid(format!(
                "{owner}, port {port}: instance {} is not from 0 to 65535",
                replica.instance
            ))
        })?;
        let replica = Replica { port, instance };
        if !seen.insert(replica) {
            return Err(P4RuntimeError::invalid(format!(
                "{owner}: port {port} with instance {instance} is there twice; give the copies different instances"
            )));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

fn port(what: &str, given: Option<&v1::replica::PortKind>) -> Result<u32, P4RuntimeError> {
    match given {
        Some(v1::replica::PortKind::EgressPort(port)) => Ok(*port),
        Some(v1::replica::PortKind::Port(bytes)) => match values::decode_u64(bytes, PORT_WIDTH) {
            Ok(port) => Ok(port as u32),
            Err(error) => Err(P4RuntimeError::new(crate::Code::OutOfRange, format!("{what}, port: {error}"))),
        },
        None => Err(P4RuntimeError::invalid(format!("{what}: a replica has no port; give one"))),
    }
}

fn replica_messages(replicas: &[Replica]) -> Vec<v1::Replica> {
    let one = |replica: &Replica| v1::Replica {
        port_kind: Some(v1::replica::PortKind::Port(values::encode(&[u64::from(replica.port)]))),
        instance: u32::from(replica.instance),
        backup_replicas: Vec::new(),
    };
    replicas.iter().map(one).collect()
}

fn wrapped(entry: P) -> v1::entity::Entity {
    v1::entity::Entity::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(entry) })
}

/// Encodes a multicast group.
pub(super) fn multicast_message(group: &MulticastGroup) -> v1::entity::Entity {
    wrapped(P::MulticastGroupEntry(v1::MulticastGroupEntry {
        multicast_group_id: group.id,
        replicas: replica_messages(&group.replicas),
        metadata: bytes::Bytes::new(),
    }))
}

/// Encodes a clone session. P4Runtime cannot express a session that also copies to a multicast
/// group.
pub(super) fn clone_message(session: &CloneSession) -> v1::entity::Entity {
    wrapped(P::CloneSessionEntry(v1::CloneSessionEntry {
        session_id: session.id,
        replicas: replica_messages(&session.replicas),
        class_of_service: session.class_of_service,
        packet_length_bytes: i32::try_from(session.packet_length).unwrap_or(i32::MAX),
    }))
}

pub(super) fn read(state: &ControlState, wanted: &v1::PacketReplicationEngineEntry, sink: EntitySink<'_>) -> ReadFlow {
    let (groups, sessions) = match &wanted.r#type {
        None => (Some(0), Some(0)),
        Some(P::MulticastGroupEntry(group)) => (Some(group.multicast_group_id), None),
        Some(P::CloneSessionEntry(session)) => (None, Some(session.session_id)),
    };
    if let Some(id) = groups {
        let all = state.multicast_groups().values().filter(|group| id == 0 || group.id == id);
        if send(all.map(multicast_message), "multicast group", id, sink)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    if let Some(id) = sessions {
        // P4Runtime has no session 0.
        let all = state.clone_sessions().values().filter(|session| session.id != 0 && (id == 0 || session.id == id));
        return send(all.map(clone_message), "clone session", id, sink);
    }
    Ok(ControlFlow::Continue(()))
}

fn send(all: impl Iterator<Item = v1::entity::Entity>, what: &str, id: u32, sink: EntitySink<'_>) -> ReadFlow {
    let mut found = id == 0;
    for one in all {
        found = true;
        if sink(entity(one)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    match found {
        true => Ok(ControlFlow::Continue(())),
        false => Err(P4RuntimeError::not_found(format!("there is no {what} {id}"))),
    }
}
