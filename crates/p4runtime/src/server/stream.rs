//! One `StreamChannel` (P4Runtime specification, section "P4Runtime Stream Messages"): what its client sends.

use super::access::Power;
use super::arbitration::{Step, StreamId};
use super::core::Core;
use super::outbox::{Outbox, OutboxReader};
use crate::proto::v1::stream_error::Details;
use crate::proto::v1::stream_message_request::Update as In;
use crate::proto::v1::stream_message_response::Update as Out;
use crate::proto::v1::{
    DigestListAckError, MasterArbitrationUpdate, PacketOut, PacketOutError, StreamError, StreamMessageRequest,
    StreamMessageResponse, StreamOtherError,
};
use crate::{Code, Refusal};
use std::sync::Arc;
use tonic::{Status, Streaming};

/// A stream whose client sends.
struct Session {
    core: Arc<Core>,
    id: StreamId,
    outbox: Arc<Outbox>,
    power: Power,
}

impl Core {
    /// Takes in a new stream, and returns what it is sent.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there are too many.
    pub fn stream(
        self: &Arc<Self>,
        power: Power,
        inbound: Streaming<StreamMessageRequest>,
    ) -> Result<OutboxReader, Refusal> {
        let (id, outbox) = self.enter()?;
        let core = self.clone();
        let reader = OutboxReader::new(outbox.clone(), move || core.leave(id));
        let session = Session { core: self.clone(), id, outbox, power };
        tokio::spawn(session.run(inbound));
        Ok(reader)
    }
}

impl Session {
    async fn run(self, mut inbound: Streaming<StreamMessageRequest>) {
        let end = loop {
            let message = tokio::select! {
                message = inbound.message() => message,
                () = self.outbox.ended() => break None,
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
                    // Without the payload: the client has it.
                    let packet_out = Some(PacketOut { payload: Default::default(), metadata: packet.metadata });
                    self.error(refusal, Details::PacketOut(PacketOutError { packet_out }));
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
        self.outbox.offer(StreamMessageResponse { update: Some(Out::Error(error)) });
    }

    async fn arbitrate(&self, update: &MasterArbitrationUpdate) -> Result<(), Refusal> {
        if update.election_id.is_some() && self.power < Power::TableWriter {
            let why = format!("the token is {}: leave the election id out, or send a table-writer's token", self.power);
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
            clients.tell(advice.into_iter().collect());
            drop(clients);
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
        let bytes = self.core.program()?.schema.packet_out(packet)?;
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
