//! The RPCs: who may call them, and what they do in which order.

use super::access::{Power, shown};
use super::agreement;
use super::answer::Answer;
use super::connection::Connection;
use super::core::Core;
use super::outbox::OutboxReader;
use super::peer::Peer;
use super::read::Reader;
use super::received::Admitted;
use super::role::Scope;
use super::stream::Client;
use super::watching::{Observing, RequestKind};
use crate::proto::v1::p4_runtime_server::P4Runtime;
use crate::proto::v1::*;
use crate::{Code, Refusal};
use std::sync::Arc;
use std::time::Instant;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

/// The version of the interface that is in `proto/`.
pub const API_VERSION: &str = "1.5.0";

/// The service over what all requests share.
#[derive(Clone)]
pub struct Service(pub Arc<Core>, pub Option<Observing>);

impl Service {
    /// Does the work, and tells the observer of it.
    async fn timed<T>(&self, kind: RequestKind, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let began = Instant::now();
        let outcome = work.await;
        if let Some(Observing(observer)) = &self.1 {
            observer.answered(kind, began.elapsed(), outcome.is_err());
        }
        outcome
    }

    fn allow<T>(&self, request: &Request<T>, needed: Power) -> Result<Power, Status> {
        self.0.credentials.access().check(request.metadata(), needed).map_err(|refusal| {
            let (who, request) = (Connection::of(request.extensions()).peer, short_name::<T>());
            warn!(%who, request, why = refusal.message, "refused a client");
            refusal.status()
        })
    }
}

/// The name of a message, without where it is defined.
fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    name.trim_end_matches('>').rsplit("::").next().unwrap_or(name)
}

/// The outcome of work on a thread that may wait.
fn worked<T>(done: Result<Result<T, Status>, tokio::task::JoinError>) -> Result<T, Status> {
    done.unwrap_or_else(|_| Err(Status::internal("the server failed at this request; what it changed is not known")))
}

fn refused_write(who: &Peer, request: &WriteRequest, why: &str) {
    let (updates, role) = (request.updates.len(), &request.role);
    warn!(%who, role, updates, why, "refused a write");
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Answer;
    type StreamChannelStream = OutboxReader;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let work = async {
            self.allow(&request, Power::TableWriter)?;
            let peer = Connection::of(request.extensions()).peer;
            let (core, request) = (self.0.clone(), request.into_inner());
            #[allow(deprecated)]
            let who = (request.device_id, request.role_id, request.election_id);
            let check = |core: &Core| {
                let primary = core.primary(who.0, who.1, &request.role, who.2);
                primary
                    .inspect_err(|refusal| refused_write(&peer, &request, &refusal.message))
                    .map_err(|refusal| refusal.status())
            };
            check(&core)?;
            let turn = core.turn().await;
            // The primary may have changed meanwhile.
            let scope = check(&core)?;
            let work = move || {
                let _turn = turn;
                core.write(&request, &scope).inspect_err(|status| refused_write(&peer, &request, status.message()))
            };
            worked(tokio::task::spawn_blocking(work).await).map(|()| Response::new(WriteResponse {}))
        };
        self.timed(RequestKind::Write, work).await
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Answer>, Status> {
        let work = async {
            self.allow(&request, Power::ReadOnly)?;
            let token = self.0.credentials.access().listed(request.metadata());
            let who = Connection::of(request.extensions()).peer.identity(token);
            let admitted = request.extensions().get::<Admitted>().cloned().unwrap_or_default();
            let answer = self.0.read(request.into_inner(), Reader { who, admitted }).await;
            answer.map(Response::new).map_err(|refusal| refusal.status())
        };
        self.timed(RequestKind::Read, work).await
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let work = async {
            self.allow(&request, Power::PipelineOwner)?;
            let peer = Connection::of(request.extensions()).peer;
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
                let (role, how) = (request.role.clone(), request.action().as_str_name());
                let began = Instant::now();
                let outcome = core.set_pipeline(request);
                let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
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
            let differences = worked(tokio::task::spawn_blocking(work).await)?;
            let mut response = Response::new(SetForwardingPipelineConfigResponse {});
            agreement::add_warnings(response.metadata_mut(), &differences);
            Ok(response)
        };
        self.timed(RequestKind::SetPipeline, work).await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let work = async {
            self.allow(&request, Power::ReadOnly)?;
            let (core, request) = (self.0.clone(), request.into_inner());
            let work = move || core.get_pipeline(&request).map_err(|refusal| refusal.status());
            let config = worked(tokio::task::spawn_blocking(work).await)?;
            Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
        };
        self.timed(RequestKind::GetPipeline, work).await
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<OutboxReader>, Status> {
        let work = async {
            let power = self.allow(&request, Power::ReadOnly)?;
            let client =
                Client { peer: Connection::of(request.extensions()).peer, shown: shown(request.metadata()), power };
            self.0.stream(client, request.into_inner()).map(Response::new).map_err(|refusal| refusal.status())
        };
        self.timed(RequestKind::Stream, work).await
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        let work = async {
            self.allow(&request, Power::ReadOnly)?;
            // 0: capabilities of the server alone; they are the same.
            let device = request.into_inner().device_id;
            if device != 0 {
                self.0.clients().arbitration.check_device(device).map_err(|refusal| refusal.status())?;
            }
            let p4runtime_api_version = API_VERSION.to_owned();
            Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
        };
        self.timed(RequestKind::Capabilities, work).await
    }
}
