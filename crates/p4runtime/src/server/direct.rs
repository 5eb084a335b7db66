//! [`Direct`]: requests without a network, executed by the caller's thread. For tests and fuzzing
//! of the service without its connections.

use super::arbitration::ArbitrationEffect;
use super::core::ServerState;
use super::credentials::Credentials;
use super::limits::Limits;
use super::role::RoleScope;
use crate::proto::v1::stream_message_request::Update as In;
use crate::proto::v1::{Entity, ReadRequest, SetForwardingPipelineConfigRequest, StreamMessageRequest, WriteRequest};
use crate::{Device, P4RuntimeError};
use std::sync::Arc;
use tonic::Status;

/// Number of the only stream.
const STREAM: u64 = 1;

/// Service of a device for a single caller with all permissions, which need not be primary.
pub struct Direct {
    core: ServerState,
}

impl Direct {
    /// Creates the service of a device.
    pub fn new(device: Arc<dyn Device>) -> Direct {
        Direct {
            core: ServerState::new(
                device,
                Default::default(),
                Credentials::default(),
                Limits::default(),
                Arc::default(),
            ),
        }
    }

    /// Executes a `Write`.
    ///
    /// # Errors
    /// The status that a client receives.
    pub fn write(&self, request: &WriteRequest) -> Result<(), Status> {
        self.core.write(request, &RoleScope::Full)
    }

    /// Executes a `Read` and returns all entities.
    ///
    /// # Errors
    /// The status that a client receives; the entities are then omitted.
    pub fn read(&self, request: &ReadRequest) -> Result<Vec<Entity>, Status> {
        self.core.read_at_once(request)
    }

    /// Executes a `SetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// The error that a client receives.
    pub fn set_pipeline(&self, request: SetForwardingPipelineConfigRequest) -> Result<(), P4RuntimeError> {
        self.core.set_pipeline(request).map(drop)
    }

    /// Processes a message of a client's stream.
    ///
    /// # Errors
    /// The error that a client receives, on the stream or as its end.
    pub fn message(&self, message: StreamMessageRequest) -> Result<(), P4RuntimeError> {
        match message.update {
            Some(In::Arbitration(update)) => {
                let mut clients = self.core.clients();
                if let ArbitrationEffect::Handover(_) = clients.arbitration.handle_update(STREAM, &update)? {
                    clients.arbitration.accept_writes(STREAM);
                }
                Ok(())
            }
            Some(In::Packet(packet)) => self.core.device.packet_out(self.core.packet_out(&packet)?),
            Some(In::DigestAck(ack)) => {
                self.core.digests().acknowledge(&ack);
                Ok(())
            }
            Some(In::Other(_)) | None => Err(P4RuntimeError::invalid("the message is empty or of an unknown type")),
        }
    }
}
