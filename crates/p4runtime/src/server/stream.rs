//! One `StreamChannel` (P4Runtime specification, section "P4Runtime Stream Messages"): messages of
//! its client.

use super::access::{ClientPermission, TokenHash};
use super::arbitration::{ArbitrationEffect, StreamId, election_of};
use super::core::ServerState;
use super::outbox::{Outbox, OutboxReader};
use super::peer::Peer;
use crate::proto::v1::stream_error::Details;
use crate::proto::v1::stream_message_request::Update as In;
use crate::proto::v1::stream_message_response::Update as Out;
use crate::proto::v1::{
    DigestListAckError, MasterArbitrationUpdate, PacketMetadata, PacketOut, PacketOutError, StreamError,
    StreamMessageRequest, StreamMessageResponse, StreamOtherError,
};
use crate::{Code, P4RuntimeError};
use bytes::Bytes;
use std::sync::Arc;
use tonic::{Status, Streaming};
use tracing::info;

/// Delay of a stream that floods.
const FLOODED: std::time::Duration = std::time::Duration::from_millis(1);

/// Maximum number of metadata of a rejected packet that are returned to its client, and their
/// maximum length in bytes.
const RETURNED_METADATA: (usize, usize) = (16, 64);

/// Returns a rejected packet for the error to its client. The payload is omitted, because the
/// client has it, and so are metadata that no program declares. Values are copied, because they are
/// slices of the received message and would keep it alive.
fn rejected_packet(packet: &PacketOut) -> PacketOut {
    let (most, longest) = RETURNED_METADATA;
    let copy = |one: &PacketMetadata| PacketMetadata { value: Bytes::copy_from_slice(&one.value), ..*one };
    let all = &packet.metadata;
    let few = all.len() <= most && all.iter().all(|one| one.value.len() <= longest);
    PacketOut { payload: Bytes::new(), metadata: if few { all.iter().map(copy).collect() } else { Vec::new() } }
}

/// Client that opened a stream.
pub struct StreamClient {
    pub peer: Peer,
    /// The token it presented.
    pub presented_token: Option<TokenHash>,
    pub permission: ClientPermission,
}

/// Session of a stream.
struct StreamSession {
    core: Arc<ServerState>,
    id: StreamId,
    outbox: Arc<Outbox>,
    client: StreamClient,
}

impl ServerState {
    /// Registers a new stream and returns the reader of its outgoing messages.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many.
    pub fn stream(
        self: &Arc<Self>,
        client: StreamClient,
        inbound: Streaming<StreamMessageRequest>,
    ) -> Result<OutboxReader, P4RuntimeError> {
        let (id, outbox) = self.add_stream(client.peer.clone())?;
        info!(who = %client.peer, permission = %client.permission, stream = id, "a controller has connected");
        let core = self.clone();
        let reader = OutboxReader::new(outbox.clone(), move || core.remove_stream(id));
        let session = StreamSession { core: self.clone(), id, outbox, client };
        tokio::spawn(session.run(inbound));
        Ok(reader)
    }
}

impl StreamSession {
    /// Processes the messages of a stream until the client or the server ends it, or its token is
    /// revoked.
    async fn run(self, mut inbound: Streaming<StreamMessageRequest>) {
        let credentials = self.core.credentials.clone();
        let revoked = credentials.wait_for_revocation(self.client.presented_token, self.client.permission);
        tokio::pin!(revoked);
        let end = loop {
            let message = tokio::select! {
                message = inbound.message() => message,
                () = self.outbox.ended() => break None,
                refusal = &mut revoked => break Some(refusal.status()),
            };
            match message {
                Ok(Some(message)) => {
                    if let Err(refusal) = self.handle_message(message).await {
                        break Some(refusal.status());
                    }
                }
                Ok(None) => break None,
                // The message cannot be decoded, or the connection is broken.
                Err(status) => break Some(Status::new(status.code(), status.message())),
            }
        };
        let why = end.as_ref().map_or("", |status| status.message());
        info!(who = %self.client.peer, stream = self.id, why, "a controller has left");
        self.core.remove_stream(self.id);
        self.outbox.end(end);
    }

    /// Processes a message.
    ///
    /// # Errors
    /// The stream must end.
    async fn handle_message(&self, message: StreamMessageRequest) -> Result<(), P4RuntimeError> {
        match message.update {
            Some(In::Arbitration(update)) => self.arbitrate(&update).await?,
            Some(In::Packet(packet)) => {
                if let Err(refusal) = self.packet_out(&packet).await {
                    // Delays a client that sends faster than packets are accepted, so that others
                    // are served meanwhile.
                    if refusal.code == Code::ResourceExhausted {
                        tokio::time::sleep(FLOODED).await;
                    }
                    self.send_error(
                        refusal,
                        Details::PacketOut(PacketOutError { packet_out: Some(rejected_packet(&packet)) }),
                    );
                }
            }
            Some(In::DigestAck(ack)) => {
                if let Err(refusal) = self.digest_ack(&ack) {
                    self.send_error(refusal, Details::DigestListAck(DigestListAckError { digest_list_ack: Some(ack) }));
                }
            }
            Some(In::Other(_)) => {
                let refusal =
                    P4RuntimeError::unimplemented("programs of this device have no stream messages of their own");
                self.send_error(refusal, Details::Other(StreamOtherError::default()));
            }
            None => {
                let refusal = P4RuntimeError::invalid("the message is empty or of a type unknown to this server");
                self.send_error(refusal, Details::Other(StreamOtherError::default()));
            }
        }
        Ok(())
    }

    fn send_error(&self, refusal: P4RuntimeError, details: Details) {
        let (canonical_code, message) = (refusal.code as i32, refusal.message);
        let error = StreamError { canonical_code, message, details: Some(details), ..StreamError::default() };
        self.outbox.offer_error(StreamMessageResponse { update: Some(Out::Error(error)) });
    }

    /// Processes an arbitration update. A new primary's writes are accepted after those of the last
    /// one have ended.
    async fn arbitrate(&self, update: &MasterArbitrationUpdate) -> Result<(), P4RuntimeError> {
        if update.election_id.is_some() && self.client.permission < ClientPermission::TableWriter {
            let reason = format!(
                "the token is {}: leave the election id out, or send a table-writer's token",
                self.client.permission
            );
            return Err(P4RuntimeError::new(Code::PermissionDenied, reason));
        }
        let is_handover = {
            let mut clients = self.core.clients();
            let (is_handover, messages) = match clients.arbitration.handle_update(self.id, update)? {
                ArbitrationEffect::Messages(messages) => (false, messages),
                ArbitrationEffect::Handover(messages) => (true, messages),
            };
            clients.queue_messages(messages);
            is_handover
        };
        if is_handover {
            self.core.digests().clear_unacknowledged();
            let write_guard = self.core.acquire_write_guard().await;
            let mut clients = self.core.clients();
            let messages = clients.arbitration.accept_writes(self.id);
            let role = clients.arbitration.role_of_primary(self.id).map(str::to_owned);
            clients.queue_messages(messages.into_iter().collect());
            drop(clients);
            if let (Some(role), Some(election)) = (role, update.election_id) {
                let election = election_of(election);
                info!(who = %self.client.peer, stream = self.id, role, %election, "a controller is primary");
            }
            drop(write_guard);
        }
        Ok(())
    }

    async fn packet_out(&self, packet: &PacketOut) -> Result<(), P4RuntimeError> {
        let scope = self.core.clients().arbitration.primary_scope(self.id);
        let denied = |why: &str| Err(P4RuntimeError::new(Code::PermissionDenied, why));
        match scope {
            None => return denied("only the primary may send packets"),
            Some(scope) if !scope.packet_out() => return denied("the role's config has no packet_out"),
            Some(_) => {}
        }
        let bytes = self.core.packet_out(packet)?;
        let device = self.core.device.clone();
        let sent = tokio::task::spawn_blocking(move || device.packet_out(bytes)).await;
        sent.unwrap_or_else(|_| Err(P4RuntimeError::new(Code::Internal, "sending the packet failed")))
    }

    fn digest_ack(&self, ack: &crate::proto::v1::DigestListAck) -> Result<(), P4RuntimeError> {
        let program = self.core.program()?;
        if !program.has_digest(ack.digest_id) {
            return Err(P4RuntimeError::invalid(format!("there is no digest with id {:#x}", ack.digest_id)));
        }
        let scope = self.core.clients().arbitration.primary_scope(self.id);
        if !scope.is_some_and(|scope| scope.has(ack.digest_id)) {
            return Err(P4RuntimeError::new(
                Code::PermissionDenied,
                "only a primary that receives the digest may acknowledge it",
            ));
        }
        self.core.digests().acknowledge(ack);
        Ok(())
    }
}
