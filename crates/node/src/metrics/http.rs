//! Metrics over HTTP/1.1: `GET /metrics`. Addresses other than loopback require TLS with client
//! certificates, as the P4Runtime server does.

use super::Metrics;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use p4runtime::server::{Credentials, TlsWhere};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Maximum number of simultaneous connections; further ones are closed at once.
const MAX_CONNECTIONS: usize = 16;
/// Time limit for a client to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of a connection. Scrapers reconnect.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
/// Content type of OpenMetrics 1.0.
const CONTENT_TYPE_OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics cannot be served.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The listener's address is unavailable.
    #[error("the listener for metrics cannot be used: {0}")]
    Listener(#[from] std::io::Error),
    /// The metrics would be readable by any host.
    #[error(
        "{0}: without TLS any host could read the metrics; give certificates under [p4runtime], or listen on loopback"
    )]
    Unprotected(std::net::SocketAddr),
}

/// Serves metrics until it is dropped. Uses the certificates that `credentials` contain when a
/// client connects.
///
/// # Errors
/// Returns [`MetricsError`]; nothing is served then.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    credentials: Credentials,
    tls_where: TlsWhere,
) -> Result<Infallible, MetricsError> {
    let address = listener.local_addr()?;
    let secured = tls_where.is_at(address);
    if secured && credentials.http_acceptor().is_none() {
        return Err(MetricsError::Unprotected(address));
    }
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The likely cause is the limit of open files; retry after other connections close.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let acceptor = if secured { credentials.http_acceptor() } else { None };
        if secured && acceptor.is_none() {
            continue;
        }
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let _place = place;
            let conversation = async {
                match acceptor {
                    None => serve_connection(stream, metrics).await,
                    Some(acceptor) => {
                        let secured = tokio::time::timeout(REQUEST_TIMEOUT, acceptor.accept(stream)).await;
                        if let Ok(Ok(secured)) = secured {
                            serve_connection(secured, metrics).await;
                        }
                    }
                }
            };
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, conversation).await;
        });
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin, metrics: Metrics) {
    let service = service_fn(move |request| handle_request(request, metrics.clone()));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT).max_buf_size(16 << 10);
    // Errors of a client only end its connection.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn handle_request(request: Request<Incoming>, metrics: Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            // Runs on a blocking thread, because the node can be busy with a write.
            let text = tokio::task::spawn_blocking(move || metrics.text()).await.unwrap_or_default();
            (StatusCode::OK, CONTENT_TYPE_OPENMETRICS, text)
        }
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "metrics can be read with GET\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    Ok(response)
}
