//! [`Tls`]: the server's certificate, and whose clients' it accepts.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

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

impl Tls {
    pub(super) fn config(&self, handshake: Duration) -> ServerTlsConfig {
        ServerTlsConfig::new()
            .identity(Identity::from_pem(&self.certificate, &self.key))
            .client_ca_root(Certificate::from_pem(&self.client_authority))
            .timeout(handshake)
    }
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
