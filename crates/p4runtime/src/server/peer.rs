//! [`Peer`]: printable identity of the other end of a connection.

use super::access::TokenHash;
use super::fair_semaphore::ClientKey;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::net::SocketAddr;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Address of a client and the name in its certificate. Displayed as `ADDRESS` or `NAME at
/// ADDRESS`; the name is the client's own text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    address: Option<SocketAddr>,
    name: Option<String>,
}

impl Peer {
    /// Creates a peer without a certificate.
    pub fn at(address: Option<SocketAddr>) -> Peer {
        Peer { address, name: None }
    }

    /// Adds a verified certificate: its common name, or its whole subject if it has none.
    pub fn with(self, certificate: Option<&CertificateDer<'_>>) -> Peer {
        let name = certificate.and_then(|certificate| {
            let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
            let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
            Some(common.map_or_else(|| certificate.subject().to_string(), str::to_owned))
        });
        Peer { name, ..self }
    }
}

impl Peer {
    /// Returns the identity of the client, which has presented this listed token.
    pub fn identity(&self, token: Option<TokenHash>) -> ClientKey {
        let address = self.address.map_or(ClientKey::Unknown, |address| ClientKey::Address(address.ip()));
        let name = self.name.clone().map(ClientKey::Name);
        name.or(token.map(ClientKey::Token)).unwrap_or(address)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name} at ")?;
        }
        match self.address {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("an unknown address"),
        }
    }
}
