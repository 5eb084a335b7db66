//! The RPCs: who may call them, and what they do in which order.

use super::access::Power;
use super::core::Core;
use super::outbox::OutboxReader;
use super::read::Answer;
use super::role::Scope;
use crate::proto::v1::p4_runtime_server::P4Runtime;
use crate::proto::v1::*;
use crate::{Code, Refusal};
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// The version of the interface that is in `proto/`.
pub const API_VERSION: &str = "1.5.0";

/// The service over what all requests share.
#[derive(Clone)]
pub struct Service(pub Arc<Core>);

impl Service {
    fn allow<T>(&self, request: &Request<T>, needed: Power) -> Result<Power, Status> {
        self.0.access.check(request.metadata(), needed).map_err(|refusal| refusal.status())
    }
}

/// The outcome of work on a thread that may wait.
fn worked<T>(done: Result<Result<T, Status>, tokio::task::JoinError>) -> Result<T, Status> {
    done.unwrap_or_else(|_| Err(Status::internal("the server failed at this request; what it changed is not known")))
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Answer;
    type StreamChannelStream = OutboxReader;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        self.allow(&request, Power::TableWriter)?;
        let (core, request) = (self.0.clone(), request.into_inner());
        #[allow(deprecated)]
        let who = (request.device_id, request.role_id, request.election_id);
        let check = |core: &Core| core.primary(who.0, who.1, &request.role, who.2).map_err(|refusal| refusal.status());
        check(&core)?;
        let turn = core.turn().await;
        // The primary may have changed meanwhile.
        let scope = check(&core)?;
        let work = move || {
            let _turn = turn;
            core.write(&request, &scope)
        };
        worked(tokio::task::spawn_blocking(work).await).map(|()| Response::new(WriteResponse {}))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Answer>, Status> {
        self.allow(&request, Power::ReadOnly)?;
        self.0.read(request.into_inner()).await.map(Response::new).map_err(|refusal| refusal.status())
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        self.allow(&request, Power::PipelineOwner)?;
        let (core, request) = (self.0.clone(), request.into_inner());
        #[allow(deprecated)]
        let who = (request.device_id, request.role_id, request.election_id);
        let check = |core: &Core| {
            let scope = core.primary(who.0, who.1, &request.role, who.2)?;
            let why = "the role's config limits it to some objects; only a role with full access sets the pipeline";
            if *scope == Scope::Full { Ok(()) } else { Err(Refusal::new(Code::PermissionDenied, why)) }
        };
        check(&core).map_err(|refusal| refusal.status())?;
        let turn = core.turn().await;
        check(&core).map_err(|refusal| refusal.status())?;
        let work = move || {
            let _turn = turn;
            core.set_pipeline(request).map_err(|refusal| refusal.status())
        };
        worked(tokio::task::spawn_blocking(work).await).map(|()| Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        self.allow(&request, Power::ReadOnly)?;
        let (core, request) = (self.0.clone(), request.into_inner());
        let work = move || core.get_pipeline(&request).map_err(|refusal| refusal.status());
        let config = worked(tokio::task::spawn_blocking(work).await)?;
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<OutboxReader>, Status> {
        let power = self.allow(&request, Power::ReadOnly)?;
        self.0.stream(power, request.into_inner()).map(Response::new).map_err(|refusal| refusal.status())
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        self.allow(&request, Power::ReadOnly)?;
        // 0: capabilities of the server alone; they are the same.
        let device = request.into_inner().device_id;
        if device != 0 {
            self.0.clients().arbitration.check_device(device).map_err(|refusal| refusal.status())?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}
