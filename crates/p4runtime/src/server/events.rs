//! Delivery of the device's events to the primaries with a matching role.

use super::active_pipeline::ActivePipeline;
use super::arbitration::StreamId;
use super::core::ServerState;
use super::outbox::Outbox;
use super::role::RoleScope;
use super::state_handle::ServerStateHandle;
use crate::proto::v1::stream_message_response::Update as Out;
use crate::proto::v1::{DigestList, IdleTimeoutNotification, PacketIn, StreamMessageResponse, TableEntry};
use crate::translate::{Schema, StringsOf};
use crate::{DeviceEvent, EventSink};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of events processed together.
const AT_ONCE: usize = 256;

/// Returns a sink for a device's events and the receiving end of its queue.
pub fn event_queue(room: usize, held: ServerStateHandle) -> (EventSink, Receiver<DeviceEvent>) {
    let (sender, receiver): (Sender<DeviceEvent>, _) = channel(room);
    let sink = move |event: DeviceEvent| {
        let is_digest = matches!(event, DeviceEvent::Digest { .. });
        if is_digest {
            held.count_reported();
        }
        let taken = sender.try_send(event).is_ok();
        if is_digest && !taken {
            held.count_arrived(1);
        }
        taken
    };
    (Arc::new(sink), receiver)
}

/// Delivers events until the device drops its sink. Also sends digest lists when their time is due.
pub async fn deliver_events(core: Arc<ServerState>, mut events: Receiver<DeviceEvent>) {
    let mut batch = Vec::with_capacity(AT_ONCE);
    loop {
        let deadline = core.digests().next_deadline();
        let timer = async {
            match deadline {
                Some(deadline_time) => tokio::time::sleep_until(deadline_time.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = events.recv_many(&mut batch, AT_ONCE) => {
                if count == 0 {
                    return;
                }
                core.deliver_batch(&mut batch);
            }
            () = timer => {}
            () = core.state_handle.digests_changed().notified() => {}
        }
        core.send_due();
    }
}

/// Primary with the scope of its role.
type Primary = (StreamId, Arc<RoleScope>, Arc<Outbox>);

impl ServerState {
    fn receivers(&self) -> Vec<Primary> {
        let clients = self.clients();
        let with_outbox = |(id, scope)| Some((id, scope, clients.outboxes.get(&id)?.clone()));
        clients.arbitration.primaries().filter_map(with_outbox).collect()
    }

    /// Delivers a batch of events and empties it. Without a running program, the events are counted
    /// as lost.
    fn deliver_batch(&self, events: &mut Vec<DeviceEvent>) {
        let digests = events.iter().filter(|event| matches!(event, DeviceEvent::Digest { .. })).count() as u64;
        let Ok(program) = self.program() else {
            self.state_handle.count_arrived(digests);
            return self.count_lost(events.drain(..).count() as u64);
        };
        let receivers = self.receivers();
        let mut idle = Vec::new();
        let schema = &program.schema;
        // Only programs with strings need the current state.
        let state = if schema.has_strings() { self.device.state() } else { None };
        let strings = state.as_ref().map(StringsOf);
        for event in events.drain(..) {
            match event {
                DeviceEvent::PacketIn(bytes) => {
                    match schema.packet_in(&bytes).map(|packet| with_strings(schema, &strings, packet)) {
                        Ok(packet) => self.send_to_primaries(&receivers, RoleScope::packet_in, Out::Packet(packet)),
                        Err(_) => self.count_lost(1),
                    }
                }
                DeviceEvent::Digest { digest, values } => {
                    self.deliver_digest(&program, &receivers, digest, &values, &strings)
                }
                DeviceEvent::Idle { table, entry, idle_ns } => {
                    let mut entry = schema.encode_idle_entry(table, &entry, idle_ns);
                    if let (Some(strings), Some(entry)) = (&strings, &mut entry) {
                        schema.name_entry(strings, entry);
                    }
                    idle.extend(entry);
                }
            }
        }
        self.state_handle.count_arrived(digests);
        if !idle.is_empty() {
            self.send_idle(&receivers, &idle);
        }
    }

    /// Adds a digest message to its list, and sends the list to `primaries` if it is
    /// full.
    fn deliver_digest(
        &self,
        program: &ActivePipeline,
        primaries: &[Primary],
        digest: ir::ExternId,
        values: &[num_bigint::BigUint],
        strings: &Option<StringsOf<'_>>,
    ) {
        let (Some(number), Ok(mut data)) =
            (program.schema.digest_number(digest), program.schema.encode_digest(digest, values))
        else {
            return self.count_lost(1);
        };
        if let Some(strings) = strings {
            program.schema.name_digest(strings, digest, &mut data);
        }
        let list = self.digests().add_message(number, data, Instant::now());
        if let Some(list) = list {
            self.send_list(primaries, list);
        }
    }

    fn send_due(&self) {
        let lists = self.digests().take_due_lists(Instant::now());
        if lists.is_empty() {
            return;
        }
        let receivers = self.receivers();
        lists.into_iter().for_each(|list| self.send_list(&receivers, list));
    }

    fn send_list(&self, to: &[Primary], list: DigestList) {
        let id = list.digest_id;
        self.send_to_primaries(to, |scope| scope.has(id), Out::Digest(DigestList { timestamp: now(), ..list }));
    }

    fn send_idle(&self, to: &[Primary], entries: &[TableEntry]) {
        for (_, scope, outbox) in to {
            let table_entry: Vec<TableEntry> = entries.iter().filter(|e| scope.has(e.table_id)).cloned().collect();
            if !table_entry.is_empty() {
                let idle = IdleTimeoutNotification { table_entry, timestamp: now() };
                self.offer_update(outbox, Out::IdleTimeoutNotification(idle));
            }
        }
    }

    fn offer_update(&self, outbox: &Outbox, update: Out) {
        if !outbox.offer(StreamMessageResponse { update: Some(update) }) {
            self.count_lost(1);
        }
    }

    fn send_to_primaries(&self, to: &[Primary], may: impl Fn(&RoleScope) -> bool, update: Out) {
        let mut found = false;
        for (_, _, outbox) in to.iter().filter(|(_, scope, _)| may(scope)) {
            self.offer_update(outbox, update.clone());
            found = true;
        }
        if !found {
            self.count_lost(1);
        }
    }
}

/// Converts the strings of a packet for the program's controllers.
fn with_strings(schema: &Schema, strings: &Option<StringsOf<'_>>, mut packet: PacketIn) -> PacketIn {
    if let Some(strings) = strings {
        schema.name_packet(strings, &mut packet);
    }
    packet
}

/// Returns the nanoseconds since the Unix epoch.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
