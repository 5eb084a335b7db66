//! One `StreamChannel` (P4Runtime specification, section "P4Runtime Stream Messages"): what its client sends.

use super::access::{Power, TokenHash};
use super::arbitration::{Step, StreamId, election_of};
use super::core::Core;
use super::outbox::{Outbox, OutboxReader};
use super::peer::Peer;
use crate::proto::v1::stream_error::Details;
use crate::proto::v1::stream_message_request::Update as In;
use crate::proto::v1::stream_message_response::Update as Out;
use crate::proto::v1::{
    DigestListAckError, MasterArbitrationUpdate, PacketMetadata, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};
use crate::{Code, Refusal};
use bytes::Bytes;
use std::sync::Arc;
use tonic::{Status, Streaming};
use tracing::info;

/// How long a stream that floods waits.
const FLOODED: std::time::Duration = std::time::Duration::from_millis(1);

/// The most metadata of a refused packet that its client is told back, and the most bytes of each.
const TOLD_BACK: (usize, usize) = (16, 64);

/// A refused packet as its client is told of it. Without the payload, which the client has, and without metadata that no program declares. A copy:
/// values are parts of the message as it was received, which would stay as long as they do.
fn told_back(packet: &PacketOut) -> PacketOut {
    let (most, longest) = TOLD_BACK;
    let copy = |one: &PacketMetadata| PacketMetadata { value: Bytes::copy_from_slice(&one.value), ..*one };
    let all = &packet.metadata;
    let few = all.len() <= most && all.iter().all(|one| one.value.len() <= longest);
    PacketOut { payload: Bytes::new(), metadata: if few { all.iter().map(copy).collect() } else { Vec::new() } }
}

/// Who opened a stream.
pub struct Client {
    pub peer: Peer,
    /// The token it has shown.
    pub shown: Option<TokenHash>,
    pub power: Power,
}

/// A stream whose client sends.
struct Session {
    core: Arc<Core>,
    id: StreamId,
    outbox: Arc<Outbox>,
    client: Client,
}

impl Core {
    /// Takes in a new stream, and returns what it is sent.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many.
    pub fn stream(
        self: &Arc<Self>,
        client: Client,
        inbound: Streaming<StreamMessageRequest>,
    ) -> Result<OutboxReader, Refusal> {
        let (id, outbox) = self.enter(client.peer.clone())?;
        info!(who = %client.peer, power = %client.power, stream = id, "a controller has connected");
        let core = self.clone();
        let reader = OutboxReader::new(outbox.clone(), move || core.leave(id));
        let session = Session { core: self.clone(), id, outbox, client };
        tokio::spawn(session.run(inbound));
        Ok(reader)
    }
}

impl Session {
    async fn run(self, mut inbound: Streaming<StreamMessageRequest>) {
        let credentials = self.core.credentials.clone();
        let revoked = credentials.revoked(self.client.shown, self.client.power);
        tokio::pin!(revoked);
        let end = loop {
            let message = tokio::select! {
                message = inbound.message() => message,
                () = self.outbox.ended() => break None,
                refusal = &mut revoked => break Some(refusal.status()),
            };
            match message {
                Ok(Some(message)) => {
                    if let Err(refusal) = self.message(message).await {
                        break Some(refusal.status());
                    }
                }
                Ok(None) => break None,
                // Not readable, or the connection is broken.
                Err(status) => break Some(Status::new(status.code(), status.message())),
            }
        };
        let why = end.as_ref().map_or("", |status| status.message());
        info!(who = %self.client.peer, stream = self.id, why, "a controller has left");
        self.core.leave(self.id);
        self.outbox.end(end);
    }

    /// # Errors
    /// If the stream is to end.
    async fn message(&self, message: StreamMessageRequest) -> Result<(), Refusal> {
        match message.update {
            Some(In::Arbitration(update)) => self.arbitrate(&update).await?,
            Some(In::Packet(packet)) => {
                if let Err(refusal) = self.packet_out(&packet).await {
                    // Who sends faster than packets are taken waits: others are to be served meanwhile.
                    if refusal.code == Code::ResourceExhausted {
                        tokio::time::sleep(FLOODED).await;
                    }
                    self.error(refusal, Details::PacketOut(PacketOutError { packet_out: Some(told_back(&packet)) }));
                }
            }
            Some(In::DigestAck(ack)) => {
                if let Err(refusal) = self.digest_ack(&ack) {
                    self.error(refusal, Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) }));
                }
            }
            Some(In::Other(_)) => {
                let refusal = Refusal::unimplemented("no program of this device has messages of its own");
                self.error(refusal, Details::Other(StreamOtherError::default()));
            }
            None => {
                let refusal = Refusal::invalid("the message is empty, or of a kind that this server doesn't know");
                self.error(refusal, Details::Other(StreamOtherError::default()));
            }
        }
        Ok(())
    }

    fn error(&self, refusal: Refusal, details: Details) {
        let (canonical_code, message) = (refusal.code as i32, refusal.message);
        let error = StreamError { canonical_code, message, details: Some(details), ..StreamError::default() };
        self.outbox.offer_error(StreamMessageResponse { update: Some(Out::Error(error)) });
    }

    async fn arbitrate(&self, update: &MasterArbitrationUpdate) -> Result<(), Refusal> {
        if update.election_id.is_some() && self.client.power < Power::TableWriter {
            let why = format!(
                "the token is {}: leave the election id out, or send a table-writer's token",
                self.client.power
            );
            return Err(Refusal::new(Code::PermissionDenied, why));
        }
        let waits = {
            let mut clients = self.core.clients();
            let (waits, advice) = match clients.arbitration.claim(self.id, update)? {
                Step::Told(advice) => (false, advice),
                Step::Handover(advice) => (true, advice),
            };
            clients.tell(advice);
            waits
        };
        if waits {
            self.core.digests().forget_sent();
            let turn = self.core.turn().await;
            let mut clients = self.core.clients();
            let advice = clients.arbitration.settle(self.id);
            let role = clients.arbitration.role_of_primary(self.id).map(str::to_owned);
            clients.tell(advice.into_iter().collect());
            drop(clients);
            if let (Some(role), Some(election)) = (role, update.election_id) {
                let election = election_of(election);
                info!(who = %self.client.peer, stream = self.id, role, %election, "a controller is primary");
            }
            drop(turn);
        }
        Ok(())
    }

    async fn packet_out(&self, packet: &PacketOut) -> Result<(), Refusal> {
        let scope = self.core.clients().arbitration.primary_scope(self.id);
        let denied = |why: &str| Err(Refusal::new(Code::PermissionDenied, why));
        match scope {
            None => return denied("only the primary may send packets"),
            Some(scope) if !scope.packet_out() => return denied("the role's config has no packet_out"),
            Some(_) => {}
        }
        let bytes = self.core.packet_out(packet)?;
        let device = self.core.device.clone();
        let sent = tokio::task::spawn_blocking(move || device.packet_out(bytes)).await;
        sent.unwrap_or_else(|_| Err(Refusal::new(Code::Internal, "sending the packet failed")))
    }

    fn digest_ack(&self, ack: &crate::proto::v1::DigestListAck) -> Result<(), Refusal> {
        let program = self.core.program()?;
        if !program.has_digest(ack.digest_id) {
            return Err(Refusal::invalid(format!("there is no digest with id {:#x}", ack.digest_id)));
        }
        let scope = self.core.clients().arbitration.primary_scope(self.id);
        if !scope.is_some_and(|scope| scope.has(ack.digest_id)) {
            return Err(Refusal::new(
                Code::PermissionDenied,
                "only a primary that receives the digest may acknowledge it",
            ));
        }
        self.core.digests().acknowledge(ack);
        Ok(())
    }
}
