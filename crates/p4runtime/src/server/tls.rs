//! [`Tls`]: the server's certificate and the authority of its clients' certificates.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

/// Certificates and keys, each as the text of a PEM file. TLS 1.2 and 1.3; clients without a
/// certificate of `client_authority` are rejected.
#[derive(Clone)]
pub struct Tls {
    /// Certificate chain of the server, its own certificate first.
    pub certificate: String,
    /// Key of the first certificate.
    pub key: String,
    /// Certificates of the authorities that sign client certificates.
    pub client_authority: String,
}

/// Omits the key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Listeners that require TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsWhere {
    /// All addresses except loopback.
    #[default]
    BeyondLoopback,
    /// All addresses.
    Everywhere,
    /// None: access is restricted by other means.
    Nowhere,
}

impl TlsWhere {
    /// Returns whether clients of a listener must use TLS.
    pub fn is_at(self, address: SocketAddr) -> bool {
        match self {
            TlsWhere::BeyondLoopback => !address.ip().to_canonical().is_loopback(),
            TlsWhere::Everywhere => true,
            TlsWhere::Nowhere => false,
        }
    }
}

/// Error of certificates or keys.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// A PEM file cannot be read.
    #[error("the {what} cannot be read: {why}; give a PEM file")]
    Pem {
        /// Its role.
        what: &'static str,
        /// Description of the error.
        why: String,
    },
    /// The files do not belong together or have an unknown type.
    #[error("{what} cannot be used: {why}")]
    Unusable {
        /// Their roles.
        what: &'static str,
        /// Description of the error.
        why: String,
    },
}

impl Tls {
    /// Creates the acceptor for handshakes.
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

/// Reads at least one certificate.
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
