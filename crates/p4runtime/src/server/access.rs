//! [`AccessList`]: permissions of clients, by bearer token. A client with a token in
//! `authorization: Bearer ...` has the permission listed for it. If no tokens are listed, all
//! clients that can connect have all permissions.

use crate::{Code, P4RuntimeError};
use ring::digest::{SHA256, digest};
use std::fmt;
use std::str::FromStr;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tonic::metadata::MetadataMap;

/// Permission of a client; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientPermission {
    /// `Read`, `GetForwardingPipelineConfig`, `Capabilities`, a `StreamChannel` without election
    /// id.
    ReadOnly,
    /// `Write`, arbitration as primary, packets.
    TableWriter,
    /// `SetForwardingPipelineConfig`.
    PipelineOwner,
}

impl ClientPermission {
    const ALL: [ClientPermission; 3] =
        [ClientPermission::ReadOnly, ClientPermission::TableWriter, ClientPermission::PipelineOwner];
}

impl fmt::Display for ClientPermission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientPermission::ReadOnly => "read-only",
            ClientPermission::TableWriter => "table-writer",
            ClientPermission::PipelineOwner => "pipeline-owner",
        })
    }
}

impl FromStr for ClientPermission {
    type Err = String;

    fn from_str(text: &str) -> Result<ClientPermission, String> {
        let found = ClientPermission::ALL.into_iter().find(|power| power.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is no permission; give read-only, table-writer or pipeline-owner"))
    }
}

/// SHA-256 of a token, so that a configuration does not hold the token itself. Tokens should be
/// random, with 128 bits or more, because a hash without salt does not protect a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    pub fn of(token: &str) -> TokenHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        TokenHash(hash)
    }
}

/// 64 hexadecimal digits, as `sha256sum` prints them.
impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for TokenHash {
    type Err = String;

    fn from_str(text: &str) -> Result<TokenHash, String> {
        let wrong = || "a token's hash has 64 hexadecimal digits: `printf %s TOKEN | sha256sum` prints it".to_owned();
        if text.len() != 64 || !text.is_ascii() {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (at, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(TokenHash(hash))
    }
}

/// Tokens and their permissions. An empty list gives every client all permissions.
#[derive(Clone, Debug, Default)]
pub struct AccessList {
    /// Hashes of tokens and the permissions of their holders.
    pub tokens: Vec<(TokenHash, ClientPermission)>,
}

impl AccessList {
    /// Checks that the sender of a request has a permission, and returns the permission it has.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: no token or an unknown one. `PERMISSION_DENIED`: the token's permission
    /// is too low.
    pub fn check(&self, metadata: &MetadataMap, needed: ClientPermission) -> Result<ClientPermission, P4RuntimeError> {
        let power = self.permission(metadata)?;
        match power >= needed {
            true => Ok(power),
            false => Err(P4RuntimeError::new(
                Code::PermissionDenied,
                format!("the token's permission is {power}; this request needs {needed}"),
            )),
        }
    }

    fn permission(&self, metadata: &MetadataMap) -> Result<ClientPermission, P4RuntimeError> {
        if self.tokens.is_empty() {
            return Ok(ClientPermission::PipelineOwner);
        }
        let Some(value) = metadata.get("authorization").and_then(|value| value.to_str().ok()) else {
            return unauthenticated_error("send a token: `authorization: Bearer TOKEN`");
        };
        match bearer_token(value) {
            Some(token) => self.permission_of(Some(TokenHash::of(token))),
            None => unauthenticated_error("only bearer tokens are understood: `authorization: Bearer TOKEN`"),
        }
    }

    /// Returns the token of a request if it is listed; `None` if the server accepts all clients.
    pub(super) fn listed_token(&self, metadata: &MetadataMap) -> Option<TokenHash> {
        presented_token(metadata).filter(|token| !self.tokens.is_empty() && self.permission_of(Some(*token)).is_ok())
    }

    /// Returns the permission of a token, or of a client without one.
    pub(super) fn permission_of(&self, given: Option<TokenHash>) -> Result<ClientPermission, P4RuntimeError> {
        if self.tokens.is_empty() {
            return Ok(ClientPermission::PipelineOwner);
        }
        let Some(given) = given else { return unauthenticated_error("send a token: `authorization: Bearer TOKEN`") };
        // All tokens are compared, so that the time does not depend on the token.
        let mut found = 0u8;
        for (hash, power) in &self.tokens {
            let is_it: Choice = hash.0.ct_eq(&given.0);
            found = u8::conditional_select(&found, &(*power as u8 + 1), is_it);
        }
        match ClientPermission::ALL.get(usize::from(found).wrapping_sub(1)) {
            Some(power) => Ok(*power),
            None => unauthenticated_error("the token is not known"),
        }
    }
}

fn unauthenticated_error(why: &str) -> Result<ClientPermission, P4RuntimeError> {
    Err(P4RuntimeError::new(Code::Unauthenticated, why))
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the token that a request contains.
pub(super) fn presented_token(metadata: &MetadataMap) -> Option<TokenHash> {
    bearer_token(metadata.get("authorization")?.to_str().ok()?).map(TokenHash::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> AccessList {
        let tokens = [
            ("r", ClientPermission::ReadOnly),
            ("w", ClientPermission::TableWriter),
            ("o", ClientPermission::PipelineOwner),
        ];
        AccessList { tokens: tokens.map(|(token, power)| (TokenHash::of(token), power)).to_vec() }
    }

    fn metadata(authorization: &str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert("authorization", authorization.parse().unwrap());
        metadata
    }

    #[test]
    fn a_token_has_its_power_and_those_below() {
        let may = |token: &str, power| access().check(&metadata(&format!("Bearer {token}")), power).map_err(|r| r.code);
        for (token, power) in [
            ("r", ClientPermission::ReadOnly),
            ("w", ClientPermission::TableWriter),
            ("o", ClientPermission::PipelineOwner),
        ] {
            for needed in ClientPermission::ALL {
                let wanted = if power >= needed { Ok(power) } else { Err(Code::PermissionDenied) };
                assert_eq!(may(token, needed), wanted, "{token} {needed}");
            }
        }
    }

    #[test]
    fn without_a_known_token_nobody_gets_in() {
        let code = |metadata: &MetadataMap| access().check(metadata, ClientPermission::ReadOnly).unwrap_err().code;
        assert_eq!(code(&MetadataMap::new()), Code::Unauthenticated);
        for wrong in ["Bearer x", "Bearer ", "Bearer", "Basic r", "r", ""] {
            assert_eq!(code(&metadata(wrong)), Code::Unauthenticated, "{wrong}");
        }
        assert!(access().check(&metadata("bearer r"), ClientPermission::ReadOnly).is_ok(), "the scheme has no case");
    }

    #[test]
    fn without_tokens_everybody_may() {
        assert_eq!(
            AccessList::default().check(&MetadataMap::new(), ClientPermission::PipelineOwner),
            Ok(ClientPermission::PipelineOwner)
        );
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_string(), hash);
        assert_eq!(hash.parse(), Ok(TokenHash::of("abc")));
        for wrong in ["", "ab", &hash.replace('b', "g"), &"é".repeat(32)] {
            assert!(wrong.parse::<TokenHash>().is_err(), "{wrong}");
        }
        assert_eq!("table-writer".parse(), Ok(ClientPermission::TableWriter));
        assert!("root".parse::<ClientPermission>().is_err());
    }
}
