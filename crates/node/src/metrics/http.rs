//! Metrics over HTTP/1.1: `GET /metrics`. Beyond loopback by TLS alone, with clients' certificates, as the rest of a node's service.

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

/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 16;
/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long a connection may last: who scrapes comes again.
const CONNECTION_TIME: Duration = Duration::from_secs(120);
/// As OpenMetrics 1.0 has it.
const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics can't be served.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The listener's address.
    #[error("the listener for metrics cannot be used: {0}")]
    Listener(#[from] std::io::Error),
    /// Strangers could read.
    #[error(
        "{0}: without TLS anybody could read the metrics; give certificates under [p4runtime], or listen on loopback"
    )]
    Unprotected(std::net::SocketAddr),
}

/// Serves until it is dropped. Certificates are those that `credentials` have in force when a client comes.
///
/// # Errors
/// See [`MetricsError`]; nothing is served then.
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No more files, most likely: they come back when others close theirs.
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
                    None => converse(stream, metrics).await,
                    Some(acceptor) => {
                        let secured = tokio::time::timeout(REQUEST_TIME, acceptor.accept(stream)).await;
                        if let Ok(Ok(secured)) = secured {
                            converse(secured, metrics).await;
                        }
                    }
                }
            };
            let _ = tokio::time::timeout(CONNECTION_TIME, conversation).await;
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, metrics: Metrics) {
    let service = service_fn(move |request| answer(request, metrics.clone()));
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME).max_buf_size(16 << 10);
    // A client that does not behave is its own problem.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, metrics: Metrics) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            // It asks the node, which may be busy with a write.
            let text = tokio::task::spawn_blocking(move || metrics.text()).await.unwrap_or_default();
            (StatusCode::OK, FORMAT, text)
        }
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "metrics can be read with GET\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    Ok(response)
}
