//! [`Credentials`]: who gets in, changed while the server serves.

use super::access::{Access, Power, TokenHash};
use super::tls::{Tls, TlsError};
use crate::{Code, Refusal};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// What is in force.
#[derive(Clone, Default)]
struct InForce {
    access: Arc<Access>,
    acceptor: Option<TlsAcceptor>,
}

/// Tokens and certificates, shared with a server: whoever holds a copy can give it others. Requests are held to the tokens in force when they come;
/// a stream whose token has lost its power ends. New connections are held to the certificates in force; those that are there go on.
#[derive(Clone)]
pub struct Credentials {
    in_force: Arc<watch::Sender<InForce>>,
}

/// Everybody has all power, and nobody can use TLS.
impl Default for Credentials {
    fn default() -> Credentials {
        Credentials { in_force: Arc::new(watch::Sender::default()) }
    }
}

/// Without tokens and keys.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// These certificates, if there are any, and these tokens.
    ///
    /// # Errors
    /// If certificates or key cannot be used.
    pub fn new(tls: Option<&Tls>, access: Access) -> Result<Credentials, TlsError> {
        let acceptor = tls.map(Tls::acceptor).transpose()?;
        let in_force = Arc::new(watch::Sender::new(InForce { access: Arc::new(access), acceptor }));
        Ok(Credentials { in_force })
    }

    /// Those of others are in force from now on, all of them at once.
    pub fn replace(&self, others: &Credentials) {
        let others = others.in_force.borrow().clone();
        self.in_force.send_replace(others);
    }

    /// The tokens in force.
    pub(super) fn access(&self) -> Arc<Access> {
        self.in_force.borrow().access.clone()
    }

    /// What does handshakes at this moment.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.in_force.borrow().acceptor.clone()
    }

    /// What does handshakes at this moment for a service of HTTP/1.1 beside this one; `None` without certificates.
    pub fn http_acceptor(&self) -> Option<TlsAcceptor> {
        let mut config = rustls::ServerConfig::clone(self.acceptor()?.config());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    /// Comes back when who has shown this token has less power than it had; never, if that does not happen.
    pub(super) async fn revoked(&self, shown: Option<TokenHash>, had: Power) -> Refusal {
        let mut changes = self.in_force.subscribe();
        let lost = |now: &InForce| now.access.power_of(shown).is_ok_and(|power| power < had);
        let gone = |now: &InForce| now.access.power_of(shown).err();
        let changed = changes.wait_for(|now| gone(now).is_some() || lost(now)).await.map(|now| gone(&now));
        match changed {
            Ok(Some(refusal)) => refusal,
            Ok(None) => {
                Refusal::new(Code::PermissionDenied, "the token has less power than before; open another stream")
            }
            // The sender is part of `self`.
            Err(_) => std::future::pending().await,
        }
    }
}
