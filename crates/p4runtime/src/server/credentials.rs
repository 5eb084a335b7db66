//! [`Credentials`]: tokens and certificates, which can change while the server serves.

use super::access::{AccessList, ClientPermission, TokenHash};
use super::tls::{Tls, TlsError};
use crate::{Code, P4RuntimeError};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Tokens and certificates in force.
#[derive(Clone, Default)]
struct ActiveCredentials {
    access: Arc<AccessList>,
    acceptor: Option<TlsAcceptor>,
}

/// Tokens and certificates, shared with a server; any copy can replace them.
///
/// A request is checked with the tokens in force on its arrival. A stream ends when its token loses
/// its permission. New connections use the certificates in force; existing ones are unaffected.
#[derive(Clone)]
pub struct Credentials {
    in_force: Arc<watch::Sender<ActiveCredentials>>,
}

/// All clients have all permissions, and TLS is not available.
impl Default for Credentials {
    fn default() -> Credentials {
        Credentials { in_force: Arc::new(watch::Sender::default()) }
    }
}

/// Omits tokens and keys.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Creates credentials from certificates, if given, and tokens.
    ///
    /// # Errors
    /// Certificates or key cannot be used.
    pub fn new(tls: Option<&Tls>, access: AccessList) -> Result<Credentials, TlsError> {
        let acceptor = tls.map(Tls::acceptor).transpose()?;
        let in_force = Arc::new(watch::Sender::new(ActiveCredentials { access: Arc::new(access), acceptor }));
        Ok(Credentials { in_force })
    }

    /// Replaces all credentials at once by those of `others`.
    pub fn replace(&self, others: &Credentials) {
        let others = others.in_force.borrow().clone();
        self.in_force.send_replace(others);
    }

    /// Returns the tokens in force.
    pub(super) fn access(&self) -> Arc<AccessList> {
        self.in_force.borrow().access.clone()
    }

    /// Returns the acceptor for TLS handshakes in force.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.in_force.borrow().acceptor.clone()
    }

    /// Returns the TLS acceptor in force for an additional HTTP/1.1 service; `None` without
    /// certificates.
    pub fn http_acceptor(&self) -> Option<TlsAcceptor> {
        let mut config = rustls::ServerConfig::clone(self.acceptor()?.config());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(TlsAcceptor::from(Arc::new(config)))
    }

    /// Completes when the token loses a permission that it `had`; otherwise never.
    pub(super) async fn wait_for_revocation(&self, shown: Option<TokenHash>, had: ClientPermission) -> P4RuntimeError {
        let mut changes = self.in_force.subscribe();
        let lost = |now: &ActiveCredentials| now.access.permission_of(shown).is_ok_and(|power| power < had);
        let gone = |now: &ActiveCredentials| now.access.permission_of(shown).err();
        let changed = changes.wait_for(|now| gone(now).is_some() || lost(now)).await.map(|now| gone(&now));
        match changed {
            Ok(Some(refusal)) => refusal,
            Ok(None) => P4RuntimeError::new(
                Code::PermissionDenied,
                "the token has a lower permission than before; open another stream",
            ),
            // Unreachable, because `self` owns the sender.
            Err(_) => std::future::pending().await,
        }
    }
}
