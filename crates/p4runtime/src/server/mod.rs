//! The P4Runtime service: clients and their roles, order of requests, notifications, over any
//! [`Device`].
//!
//! This module answers one question: *which client can do what, and in which order does it happen?*
//! The meaning of messages for a program is defined in [`crate::translate`], their effect by the
//! [`Device`].
//!
//! - [`arbitration`]: primary clients (a state machine), [`role`]: scope of a role, [`access`]:
//!   permissions of tokens.
//! - `stream`: messages of a client's stream, `events`: events of the device, [`outbox`]: queue of
//!   a stream, [`digests`]: grouping of digest messages, `state_handle`: state for a take-over.
//! - `write`, `read`, `pipeline`, `saved_config`: the requests, `agreement`: check of a P4Info
//!   against a device config, [`direct`]: requests without a network. Changes are serialised; reads
//!   use snapshots between them.
//! - `response_stream`: streamed responses; `connection`, `send_backlog` (updated by
//!   `send_backlog_layer`), `request_admission`: limits of the requests of one connection and of
//!   incoming and outgoing data; `fair_semaphore`: fair sharing between clients.
//! - `admission`, [`tls`], [`limits`], `peer`: connections; [`credentials`]: tokens and
//!   certificates, which can change at run time.
//!
//! Not supported: several devices behind one server; role configs other than our own. Events are
//! reported by the crate `tracing`, without tokens and keys.

pub mod access;
mod active_pipeline;
mod admission;
mod agreement;
pub mod arbitration;
mod batch_status;
mod connection;
mod core;
pub mod credentials;
pub mod digests;
pub mod direct;
mod events;
mod fair_semaphore;
pub mod limits;
pub mod monitor;
pub mod outbox;
mod peer;
mod pipeline;
mod read;
mod read_bounds;
mod request_admission;
mod response_stream;
pub mod role;
mod saved_config;
mod send_backlog;
mod send_backlog_layer;
mod service;
mod state_handle;
mod state_snapshot;
mod stream;
pub mod tls;
mod write;

pub use access::{AccessList, ClientPermission, TokenHash};
pub use agreement::WARNING_KEY;
pub use batch_status::parts_of;
pub use credentials::Credentials;
pub use limits::{Counters, Limits};
pub use monitor::{ConnectedClient, Observer, ObserverHandle, RequestKind, ServerMonitor};
pub use outbox::OutboxBounds;
pub use role::ROLE_CONFIG_URL;
pub use service::API_VERSION;
pub use state_handle::ServerStateHandle;
pub use state_snapshot::DigestSnapshot;
pub use state_snapshot::ServerStateSnapshot;
pub use state_snapshot::UncommittedSnapshot;
pub use tls::{Tls, TlsError, TlsWhere};

use crate::proto::v1::p4_runtime_server::P4RuntimeServer;
use crate::{Device, proto};
use admission::ConnectionLimiter;
use core::ServerState;
use request_admission::AdmissionLayer;
use send_backlog_layer::SendBacklogLayer;
use service::Service;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tonic::transport::Server;
use tower::layer::util::{Identity, Stack};

/// Options of a server: transport, credentials and limits.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Listeners that require TLS.
    pub tls_where: TlsWhere,
    /// Tokens, and certificates if the clients of any listener must use TLS. A copy can replace
    /// them while the server serves.
    pub credentials: Credentials,
    /// Server state of the device: that of the previous process on a take-over.
    pub state_handle: ServerStateHandle,
    /// Limits.
    pub limits: Limits,
    /// Counters, shared with the reader of metrics.
    pub counters: Arc<Counters>,
    /// View of the connected clients.
    pub monitor: Arc<ServerMonitor>,
    /// Observer of requests.
    pub observer: Option<ObserverHandle>,
}

/// Error at start or during operation of the server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener is not protected.
    #[error("{address}: without TLS any client could control the device; give certificates, or listen on loopback")]
    Unprotected {
        /// Address of the listener.
        address: SocketAddr,
    },
    /// A listener cannot be used.
    #[error("a listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
    /// Error of the transport.
    #[error("the server cannot start: {}", with_sources(.0))]
    Transport(#[from] tonic::transport::Error),
    /// The service's descriptors are wrong, which is a bug.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Serves a device on listeners until `shutdown` completes, with the services for health and
/// reflection, which need no token. Clients then have [`Limits::shutdown_time`] to end. Needs
/// tokio's time and network.
///
/// # Errors
/// See [`ServeError`]; nothing is served then.
pub async fn serve(
    listeners: Vec<TcpListener>,
    device: Arc<dyn Device>,
    options: ServeOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let limits = options.limits.clone();
    let admission_layer = AdmissionLayer::new(&limits);
    let mut bound = Vec::new();
    for listener in listeners {
        let address = listener.local_addr()?;
        let tls = options.tls_where.is_at(address);
        if tls && options.credentials.acceptor().is_none() {
            return Err(ServeError::Unprotected { address });
        }
        bound.push((transport(&limits, &admission_layer), listener, tls.then(|| options.credentials.clone())));
    }
    let server_state = Arc::new(ServerState::new(
        device,
        options.state_handle.clone(),
        options.credentials,
        limits.clone(),
        options.counters.clone(),
    ));
    let (sink, events) = events::event_queue(limits.events, options.state_handle);
    server_state.device.subscribe(sink);
    let delivery = tokio::spawn(events::deliver_events(server_state.clone(), events));

    let (close, closed) = watch::channel(false);
    let (drain, draining) = watch::channel(false);
    let connection_permits = Arc::new(Semaphore::new(limits.connections));
    options.monitor.attach(&server_state, &connection_permits, limits.connections);
    let connection_limiter =
        ConnectionLimiter { permits: connection_permits, limits: limits.clone(), closed, counters: options.counters };
    let (health_reporter, health) = tonic_health::server::health_reporter();
    health_reporter.set_serving::<P4RuntimeServer<Service>>().await;
    let p4runtime = P4RuntimeServer::new(Service(server_state.clone(), options.observer.clone()))
        .max_decoding_message_size(limits.message_bytes.max(4 << 20));
    let mut servers = tokio::task::JoinSet::new();
    for (mut transport, listener, credentials) in bound {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let router = transport.add_service(p4runtime.clone()).add_service(health.clone()).add_service(reflection);
        let mut draining = draining.clone();
        let until_drained = async move { drop(draining.wait_for(|draining| *draining).await) };
        servers.spawn(router.serve_with_incoming_shutdown(
            connection_limiter.clone().accept_connections(listener, credentials),
            until_drained,
        ));
    }
    drop((connection_limiter, draining));

    let ended = tokio::select! {
        () = shutdown => Ok(()),
        Some(ended) = servers.join_next() => ended.unwrap_or(Ok(())),
    };
    health_reporter.set_not_serving::<P4RuntimeServer<Service>>().await;
    drain.send_replace(true);
    server_state.end_all_streams();
    let all_ended = async { while servers.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_time, all_ended).await.is_err() {
        close.send_replace(true);
    }
    delivery.abort();
    Ok(ended?)
}

type Layered = Server<Stack<SendBacklogLayer, Stack<AdmissionLayer, Identity>>>;

fn transport(limits: &Limits, receiving: &AdmissionLayer) -> Layered {
    Server::builder()
        .max_concurrent_streams(limits.streams_per_connection)
        .timeout(limits.request_time)
        .http2_keepalive_interval(Some(limits.keep_alive))
        .http2_keepalive_timeout(Some(limits.keep_alive_time))
        .http2_max_header_list_size(64 * 1024)
        .layer(receiving.clone())
        .layer(SendBacklogLayer)
}
