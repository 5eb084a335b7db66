//! The P4Runtime service: clients and their roles, requests in their order, notifications, over any [`Device`].
//!
//! This module answers one question: *who may do what, and in which order does it happen?* What messages mean for a program is for
//! [`crate::translate`], what a device does with it for [`Device`].
//!
//! - [`arbitration`]: which client is primary (a state machine), [`role`]: what its role may do, [`access`]: what its token allows.
//! - `stream`: what a client sends on its stream, `events`: what the device tells it, [`outbox`]: what waits to be sent,
//!   [`digests`]: digest messages into lists, `held`: what another process can go on with.
//! - `write`, `read`, `pipeline`, `saved`: the requests, `agreement`: whether a P4Info is that of a device config, [`direct`]: without a network; one that changes something at a time, reads of snapshots between them.
//! - `answer`: what was read and is not yet taken; `connection`, `unsent` (counted by `count_unsent`), `received`: what requests of one connection share,
//!   and bounds of what comes in and goes out; `places`: what is shared out between clients.
//! - `admission`, [`tls`], [`limits`], `peer`: connections; [`credentials`]: who gets in, which may change meanwhile.
//!
//! Deliberately absent: several devices behind one server; role configs other than our own. What happens is told as events of the crate
//! `tracing`; no token or key is in them.

pub mod access;
mod admission;
mod agreement;
mod answer;
pub mod arbitration;
mod batch_status;
mod connection;
mod core;
mod count_unsent;
pub mod credentials;
pub mod digests;
pub mod direct;
mod events;
mod forms;
mod held;
pub mod limits;
pub mod outbox;
mod peer;
mod pipeline;
mod places;
mod program;
mod read;
mod read_bounds;
mod received;
pub mod role;
mod saved;
mod service;
mod stream;
pub mod tls;
mod unsent;
pub mod watching;
mod write;

pub use access::{Access, Power, TokenHash};
pub use agreement::WARNING_KEY;
pub use batch_status::parts_of;
pub use credentials::Credentials;
pub use forms::DigestForm;
pub use forms::HeldForm;
pub use forms::WaitingForm;
pub use held::Held;
pub use limits::{Counters, Limits};
pub use outbox::OutboxBounds;
pub use role::ROLE_CONFIG_URL;
pub use service::API_VERSION;
pub use tls::{Tls, TlsError, TlsWhere};
pub use watching::{Client, Observer, Observing, RequestKind, Watch};

use crate::proto::v1::p4_runtime_server::P4RuntimeServer;
use crate::{Device, proto};
use admission::Door;
use core::Core;
use count_unsent::CountUnsent;
use received::Receiving;
use service::Service;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tonic::transport::Server;
use tower::layer::util::{Identity, Stack};

/// How a server is reached, by whom, and how much they may ask for.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Which listeners' clients have to use TLS.
    pub tls_where: TlsWhere,
    /// Tokens, and certificates, which are needed as soon as one listener's clients have to use TLS. A copy changes them while the server serves.
    pub credentials: Credentials,
    /// What the server holds for its device: that of another process, if it is to go on with it.
    pub held: Held,
    /// Bounds.
    pub limits: Limits,
    /// Counts go there, for whoever shows them.
    pub counters: Arc<Counters>,
    /// Shows who is there.
    pub watch: Arc<Watch>,
    /// Is told of requests.
    pub observer: Option<Observing>,
}

/// The server can't begin, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Strangers could get in.
    #[error("{address}: without TLS anybody could control the device; give certificates, or listen on loopback")]
    Unprotected {
        /// The listener's.
        address: SocketAddr,
    },
    /// A listener that can't be used.
    #[error("a listener cannot be used: {0}")]
    Listener(#[from] std::io::Error),
    /// The server cannot begin or go on for another reason.
    #[error("the server cannot begin: {}", with_sources(.0))]
    Transport(#[from] tonic::transport::Error),
    /// The service's descriptors are wrong: a bug.
    #[error("reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

/// Serves a device on listeners until `shutdown` ends, with the services for health and reflection, which take no token. Clients then have
/// [`Limits::shutdown_time`]. Needs tokio's time and network.
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
    let receiving = Receiving::new(&limits);
    let mut prepared = Vec::new();
    for listener in listeners {
        let address = listener.local_addr()?;
        let tls = options.tls_where.is_at(address);
        if tls && options.credentials.acceptor().is_none() {
            return Err(ServeError::Unprotected { address });
        }
        prepared.push((transport(&limits, &receiving), listener, tls.then(|| options.credentials.clone())));
    }
    let core = Arc::new(Core::new(
        device,
        options.held.clone(),
        options.credentials,
        limits.clone(),
        options.counters.clone(),
    ));
    let (sink, events) = events::queue(limits.events, options.held);
    core.device.subscribe(sink);
    let delivery = tokio::spawn(events::deliver(core.clone(), events));

    let (close, closed) = watch::channel(false);
    let (drain, draining) = watch::channel(false);
    let places = Arc::new(Semaphore::new(limits.connections));
    options.watch.begin(&core, &places, limits.connections);
    let door = Door { places, limits: limits.clone(), closed, counters: options.counters };
    let (health_reporter, health) = tonic_health::server::health_reporter();
    health_reporter.set_serving::<P4RuntimeServer<Service>>().await;
    let p4runtime = P4RuntimeServer::new(Service(core.clone(), options.observer.clone()))
        .max_decoding_message_size(limits.message_bytes.max(4 << 20));
    let mut servers = tokio::task::JoinSet::new();
    for (mut transport, listener, credentials) in prepared {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let router = transport.add_service(p4runtime.clone()).add_service(health.clone()).add_service(reflection);
        let mut draining = draining.clone();
        let end = async move { drop(draining.wait_for(|draining| *draining).await) };
        servers.spawn(router.serve_with_incoming_shutdown(door.clone().guests(listener, credentials), end));
    }
    drop((door, draining));

    let ended = tokio::select! {
        () = shutdown => Ok(()),
        Some(ended) = servers.join_next() => ended.unwrap_or(Ok(())),
    };
    health_reporter.set_not_serving::<P4RuntimeServer<Service>>().await;
    drain.send_replace(true);
    core.end();
    let all = async { while servers.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_time, all).await.is_err() {
        close.send_replace(true);
    }
    delivery.abort();
    Ok(ended?)
}

type Layered = Server<Stack<CountUnsent, Stack<Receiving, Identity>>>;

fn transport(limits: &Limits, receiving: &Receiving) -> Layered {
    Server::builder()
        .max_concurrent_streams(limits.streams_per_connection)
        .timeout(limits.request_time)
        .http2_keepalive_interval(Some(limits.keep_alive))
        .http2_keepalive_timeout(Some(limits.keep_alive_time))
        .http2_max_header_list_size(64 * 1024)
        .layer(receiving.clone())
        .layer(CountUnsent)
}
