//! The RPCs: their permissions and the order of their execution.

use super::access::{ClientPermission, presented_token};
use super::agreement;
use super::connection::Connection;
use super::core::ServerState;
use super::monitor::{ObserverHandle, RequestKind};
use super::outbox::OutboxReader;
use super::peer::Peer;
use super::read::ReadOrigin;
use super::request_admission::RequestPermits;
use super::response_stream::ReadResponseStream;
use super::role::RoleScope;
use super::stream::StreamClient;
use crate::proto::v1::p4_runtime_server::P4Runtime;
use crate::proto::v1::*;
use crate::{Code, P4RuntimeError};
use std::sync::Arc;
use std::time::Instant;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

/// Version of the interface in `proto/`.
pub const API_VERSION: &str = "1.5.0";

/// gRPC service over the shared state.
#[derive(Clone)]
pub struct Service(pub Arc<ServerState>, pub Option<ObserverHandle>);

impl Service {
    /// Runs a request and reports it to the observer.
    async fn run_observed<T>(
        &self,
        kind: RequestKind,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let began = Instant::now();
        let outcome = work.await;
        if let Some(ObserverHandle(observer)) = &self.1 {
            observer.answered(kind, began.elapsed(), outcome.is_err());
        }
        outcome
    }

    fn check_permission<T>(&self, request: &Request<T>, needed: ClientPermission) -> Result<ClientPermission, Status> {
        self.0.credentials.access().check(request.metadata(), needed).map_err(|refusal| {
            let (who, request) = (Connection::of(request.extensions()).peer, short_name::<T>());
            warn!(%who, request, why = refusal.message, "refused a client");
            refusal.status()
        })
    }
}

/// Returns the name of a message type without its path.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.trim_end_matches('>').rsplit("::").next().unwrap_or(name)
}

/// Converts the result of work on a blocking thread.
fn join_result<T>(done: Result<Result<T, Status>, tokio::task::JoinError>) -> Result<T, Status> {
    done.unwrap_or_else(|_| Err(Status::internal("the server failed to execute this request; its changes are unknown")))
}

fn refused_write(who: &Peer, request: &WriteRequest, why: &str) {
    let (updates, role) = (request.updates.len(), &request.role);
    warn!(%who, role, updates, why, "refused a write");
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = ReadResponseStream;
    type StreamChannelStream = OutboxReader;

    /// Executes a `Write`: checks the permission and that the client is primary, waits for earlier
    /// writes, and checks again.
    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let work = async {
            self.check_permission(&request, ClientPermission::TableWriter)?;
            let peer = Connection::of(request.extensions()).peer;
            let (core, request) = (self.0.clone(), request.into_inner());
            #[allow(deprecated)]
            let primary_claim = (request.device_id, request.role_id, request.election_id);
            let check = |core: &ServerState| {
                let primary = core.primary_scope(primary_claim.0, primary_claim.1, &request.role, primary_claim.2);
                primary
                    .inspect_err(|refusal| refused_write(&peer, &request, &refusal.message))
                    .map_err(|refusal| refusal.status())
            };
            check(&core)?;
            let write_guard = core.acquire_write_guard().await;
            // The primary can have changed meanwhile.
            let scope = check(&core)?;
            let work = move || {
                let _turn = write_guard;
                core.write(&request, &scope).inspect_err(|status| refused_write(&peer, &request, status.message()))
            };
            join_result(tokio::task::spawn_blocking(work).await).map(|()| Response::new(WriteResponse {}))
        };
        self.run_observed(RequestKind::Write, work).await
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponseStream>, Status> {
        let work = async {
            self.check_permission(&request, ClientPermission::ReadOnly)?;
            let token = self.0.credentials.access().listed_token(request.metadata());
            let who = Connection::of(request.extensions()).peer.identity(token);
            let admitted = request.extensions().get::<RequestPermits>().cloned().unwrap_or_default();
            let answer = self.0.read(request.into_inner(), ReadOrigin { client: who, admitted }).await;
            answer.map(Response::new).map_err(|refusal| refusal.status())
        };
        self.run_observed(RequestKind::Read, work).await
    }

    /// Executes a `SetForwardingPipelineConfig` in order with writes, and logs it with its
    /// duration.
    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let work = async {
            self.check_permission(&request, ClientPermission::PipelineOwner)?;
            let peer = Connection::of(request.extensions()).peer;
            let (core, request) = (self.0.clone(), request.into_inner());
            #[allow(deprecated)]
            let who = (request.device_id, request.role_id, request.election_id);
            let check = |core: &ServerState| {
                let scope = core.primary_scope(who.0, who.1, &request.role, who.2)?;
                let why = "the role's config limits it to some objects; only a role with full access sets the pipeline";
                if *scope == RoleScope::Full { Ok(()) } else { Err(P4RuntimeError::new(Code::PermissionDenied, why)) }
            };
            check(&core).map_err(|refusal| refusal.status())?;
            let write_guard = core.acquire_write_guard().await;
            check(&core).map_err(|refusal| refusal.status())?;
            let work = move || {
                let _turn = write_guard;
                let (role, how) = (request.role.clone(), request.action().as_str_name());
                let start = Instant::now();
                let outcome = core.set_pipeline(request);
                let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                match &outcome {
                    Ok(differences) => {
                        let running = core.device.running();
                        let name = running.as_ref().map_or("", |running| running.pipeline.name.as_str());
                        let cookie = running.as_ref().and_then(|running| running.cookie);
                        info!(who = %peer, role, how, ms, running = name, cookie, "pipeline set");
                        agreement::log_warnings(&peer, &role, differences);
                    }
                    Err(refusal) => warn!(who = %peer, role, how, ms, why = refusal.message, "refused a pipeline"),
                }
                outcome.map_err(|refusal| refusal.status())
            };
            let differences = join_result(tokio::task::spawn_blocking(work).await)?;
            let mut response = Response::new(SetForwardingPipelineConfigResponse {});
            agreement::add_warnings(response.metadata_mut(), &differences);
            Ok(response)
        };
        self.run_observed(RequestKind::SetPipeline, work).await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let work = async {
            self.check_permission(&request, ClientPermission::ReadOnly)?;
            let (core, request) = (self.0.clone(), request.into_inner());
            let work = move || core.get_pipeline(&request).map_err(|refusal| refusal.status());
            let config = join_result(tokio::task::spawn_blocking(work).await)?;
            Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
        };
        self.run_observed(RequestKind::GetPipeline, work).await
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<OutboxReader>, Status> {
        let work = async {
            let power = self.check_permission(&request, ClientPermission::ReadOnly)?;
            let client = StreamClient {
                peer: Connection::of(request.extensions()).peer,
                presented_token: presented_token(request.metadata()),
                permission: power,
            };
            self.0.stream(client, request.into_inner()).map(Response::new).map_err(|refusal| refusal.status())
        };
        self.run_observed(RequestKind::Stream, work).await
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        let work = async {
            self.check_permission(&request, ClientPermission::ReadOnly)?;
            // 0 requests the capabilities of the server alone, which are equal.
            let device = request.into_inner().device_id;
            if device != 0 {
                self.0.clients().arbitration.check_device(device).map_err(|refusal| refusal.status())?;
            }
            let p4runtime_api_version = API_VERSION.to_owned();
            Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
        };
        self.run_observed(RequestKind::Capabilities, work).await
    }
}
