//! [`Direct`]: requests without a network, worked on where they are given. For tests and fuzzing, which want the service's own code without its
//! connections.

use super::arbitration::Step;
use super::core::Core;
use super::credentials::Credentials;
use super::limits::Limits;
use super::role::Scope;
use crate::proto::v1::stream_message_request::Update as In;
use crate::proto::v1::{Entity, ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest, WriteRequest};
use crate::{Device, Refusal};
use std::sync::Arc;
use tonic::Status;

/// The only stream there is.
const STREAM: u64 = 1;

/// The service of a device for one caller with all power, which need not be primary.
pub struct Direct {
    core: Core,
}

impl Direct {
    /// For a device.
    pub fn new(device: Arc<dyn Device>) -> Direct {
        Direct {
            core: Core::new(device, Default::default(), Credentials::default(), Limits::default(), Arc::default()),
        }
    }

    /// `Write`.
    ///
    /// # Errors
    /// As a client is told.
    pub fn write(&self, request: &WriteRequest) -> Result<(), Status> {
        self.core.write(request, &Scope::Full)
    }

    /// `Read`, all of the answer at once.
    ///
    /// # Errors
    /// As a client is told; what was found is left out then.
    pub fn read(&self, request: &ReadRequest) -> Result<Vec<Entity>, Status> {
        self.core.read_at_once(request)
    }

    /// `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// As a client is told.
    pub fn set_pipeline(&self, request: SetForwardingPipelineConfigRequest) -> Result<(), Refusal> {
        self.core.set_pipeline(request).map(drop)
    }

    /// What a client sends on its stream.
    ///
    /// # Errors
    /// As a client is told, on the stream or by its end.
    pub fn message(&self, message: StreamMessageRequest) -> Result<(), Refusal> {
        match message.update {
            Some(In::Arbitration(update)) => {
                let mut clients = self.core.clients();
                if let Step::Handover(_) = clients.arbitration.claim(STREAM, &update)? {
                    clients.arbitration.settle(STREAM);
                }
                Ok(())
            }
            Some(In::Packet(packet)) => self.core.device.packet_out(self.core.packet_out(&packet)?),
            Some(In::DigestAck(ack)) => {
                self.core.digests().acknowledge(&ack);
                Ok(())
            }
            Some(In::Other(_)) | None => Err(Refusal::invalid("the message is empty, or of a kind that nothing knows")),
        }
    }
}
