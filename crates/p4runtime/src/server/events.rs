//! What the device tells on its own, to the primaries whose roles may know it.

use super::arbitration::StreamId;
use super::core::Core;
use super::held::Held;
use super::outbox::Outbox;
use super::program::Program;
use super::role::Scope;
use crate::proto::v1::stream_message_response::Update as Out;
use crate::proto::v1::{DigestList, IdleTimeoutNotification, PacketIn, StreamMessageResponse, TableEntry};
use crate::translate::{Schema, StringsOf};
use crate::{Event, EventSink};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Events that are taken at once.
const AT_ONCE: usize = 256;

/// A sink for a device's events, and where they come out.
pub fn queue(room: usize, held: Held) -> (EventSink, Receiver<Event>) {
    let (sender, receiver): (Sender<Event>, _) = channel(room);
    let sink = move |event: Event| {
        let is_digest = matches!(event, Event::Digest { .. });
        if is_digest {
            held.tells();
        }
        let taken = sender.try_send(event).is_ok();
        if is_digest && !taken {
            held.comes(1);
        }
        taken
    };
    (Arc::new(sink), receiver)
}

/// Sends events on until the device drops its sink.
pub async fn deliver(core: Arc<Core>, mut events: Receiver<Event>) {
    let mut some = Vec::with_capacity(AT_ONCE);
    loop {
        let due = core.digests().next();
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = events.recv_many(&mut some, AT_ONCE) => {
                if count == 0 {
                    return;
                }
                core.deliver(&mut some);
            }
            () = timer => {}
            () = core.held.news().notified() => {}
        }
        core.send_due();
    }
}

/// A primary and what its role may know.
type Primary = (StreamId, Arc<Scope>, Arc<Outbox>);

impl Core {
    fn receivers(&self) -> Vec<Primary> {
        let clients = self.clients();
        let with_outbox = |(id, scope)| Some((id, scope, clients.outboxes.get(&id)?.clone()));
        clients.arbitration.primaries().filter_map(with_outbox).collect()
    }

    fn deliver(&self, events: &mut Vec<Event>) {
        let digests = events.iter().filter(|event| matches!(event, Event::Digest { .. })).count() as u64;
        let Ok(program) = self.program() else {
            self.held.comes(digests);
            return self.count_lost(events.drain(..).count() as u64);
        };
        let receivers = self.receivers();
        let mut idle = Vec::new();
        let schema = &program.schema;
        // Only programs with strings ask what is written now.
        let state = if schema.has_strings() { self.device.state() } else { None };
        let strings = state.as_ref().map(StringsOf);
        for event in events.drain(..) {
            match event {
                Event::PacketIn(bytes) => {
                    match schema.packet_in(&bytes).map(|packet| named(schema, &strings, packet)) {
                        Ok(packet) => self.send(&receivers, Scope::packet_in, Out::Packet(packet)),
                        Err(_) => self.count_lost(1),
                    }
                }
                Event::Digest { digest, values } => self.digest(&program, &receivers, digest, &values, &strings),
                Event::Idle { table, entry, idle_ns } => {
                    let mut entry = schema.idle(table, &entry, idle_ns);
                    if let (Some(strings), Some(entry)) = (&strings, &mut entry) {
                        schema.name_entry(strings, entry);
                    }
                    idle.extend(entry);
                }
            }
        }
        self.held.comes(digests);
        if !idle.is_empty() {
            self.send_idle(&receivers, &idle);
        }
    }

    fn digest(
        &self,
        program: &Program,
        to: &[Primary],
        digest: ir::ExternId,
        values: &[num_bigint::BigUint],
        strings: &Option<StringsOf<'_>>,
    ) {
        let (Some(number), Ok(mut data)) =
            (program.schema.digest_number(digest), program.schema.digest(digest, values))
        else {
            return self.count_lost(1);
        };
        if let Some(strings) = strings {
            program.schema.name_digest(strings, digest, &mut data);
        }
        let list = self.digests().message(number, data, Instant::now());
        if let Some(list) = list {
            self.send_list(to, list);
        }
    }

    fn send_due(&self) {
        let lists = self.digests().due(Instant::now());
        if lists.is_empty() {
            return;
        }
        let receivers = self.receivers();
        lists.into_iter().for_each(|list| self.send_list(&receivers, list));
    }

    fn send_list(&self, to: &[Primary], list: DigestList) {
        let id = list.digest_id;
        self.send(to, |scope| scope.has(id), Out::Digest(DigestList { timestamp: now(), ..list }));
    }

    fn send_idle(&self, to: &[Primary], entries: &[TableEntry]) {
        for (_, scope, outbox) in to {
            let table_entry: Vec<TableEntry> = entries.iter().filter(|e| scope.has(e.table_id)).cloned().collect();
            if !table_entry.is_empty() {
                let idle = IdleTimeoutNotification { table_entry, timestamp: now() };
                self.offer(outbox, Out::IdleTimeoutNotification(idle));
            }
        }
    }

    fn offer(&self, outbox: &Outbox, update: Out) {
        if !outbox.offer(StreamMessageResponse { update: Some(update) }) {
            self.count_lost(1);
        }
    }

    fn send(&self, to: &[Primary], may: impl Fn(&Scope) -> bool, update: Out) {
        let mut found = false;
        for (_, _, outbox) in to.iter().filter(|(_, scope, _)| may(scope)) {
            self.offer(outbox, update.clone());
            found = true;
        }
        if !found {
            self.count_lost(1);
        }
    }
}

/// A packet as its program's controllers see it.
fn named(schema: &Schema, strings: &Option<StringsOf<'_>>, mut packet: PacketIn) -> PacketIn {
    if let Some(strings) = strings {
        schema.name_packet(strings, &mut packet);
    }
    packet
}

/// Nanoseconds since the epoch.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
