//! [`Tls`]: the server's certificate, and whose clients' it accepts.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// Certificates and keys, each as the text of a PEM file. TLS 1.2 and 1.3; clients without a certificate of `client_authority` are refused.
#[derive(Clone)]
pub struct Tls {
    /// The server's chain of certificates, its own first.
    pub certificate: String,
    /// The key of the first.
    pub key: String,
    /// Certificates that clients' are signed with.
    pub client_authority: String,
}

/// Without the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// When clients have to use TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsWhere {
    /// On all addresses but loopback.
    #[default]
    BeyondLoopback,
    /// On all.
    Everywhere,
    /// Nowhere: other means keep strangers out.
    Nowhere,
}

impl TlsWhere {
    /// Whether clients of a listener have to use it.
    pub fn is_at(self, address: SocketAddr) -> bool {
        match self {
            TlsWhere::BeyondLoopback => !address.ip().to_canonical().is_loopback(),
            TlsWhere::Everywhere => true,
            TlsWhere::Nowhere => false,
        }
    }
}

/// Certificates or keys that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// Not what it should be.
    #[error("the {what} cannot be read: {why}; give a PEM file")]
    Pem {
        /// Which one.
        what: &'static str,
        /// What was found.
        why: String,
    },
    /// Not of each other, or of a kind that is not known.
    #[error("{what} cannot be used: {why}")]
    Unusable {
        /// Which ones.
        what: &'static str,
        /// Why.
        why: String,
    },
}

impl Tls {
    /// What does the handshakes.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let unusable = |what| move |error: &dyn fmt::Display| TlsError::Unusable { what, why: error.to_string() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates("client authority's certificate", &self.client_authority)? {
            roots.add(root).map_err(|error| unusable("the client authority's certificate")(&error))?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| unusable("the client authority's certificate")(&error))?;
        let chain = certificates("certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|error| pem("key", &error))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS")(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(|error| unusable("the certificate with this key")(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn pem(what: &'static str, error: &dyn fmt::Display) -> TlsError {
    TlsError::Pem { what, why: error.to_string() }
}

/// At least one.
fn certificates(what: &'static str, text: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let found = found.map_err(|error| pem(what, &error))?;
    if found.is_empty() { Err(pem(what, &"it has no certificate")) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_alone_is_plain_by_default() {
        let at = |text: &str| TlsWhere::default().is_at(text.parse().unwrap());
        assert!(!at("127.0.0.1:1") && !at("127.9.9.9:1") && !at("[::1]:1") && !at("[::ffff:127.0.0.1]:1"));
        assert!(at("0.0.0.0:1") && at("[::]:1") && at("192.0.2.1:1") && at("[2001:db8::1]:1"));
        assert!(TlsWhere::Everywhere.is_at("127.0.0.1:1".parse().unwrap()));
        assert!(!TlsWhere::Nowhere.is_at("192.0.2.1:1".parse().unwrap()));
    }
}
