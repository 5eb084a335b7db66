//! [`Access`]: who may do what, by bearer token. Clients with a token in `authorization: Bearer ...` have the power that it is listed with;
//! if no tokens are listed, all clients that can connect have all power.

use crate::{Code, Refusal};
use ring::digest::{SHA256, digest};
use std::fmt;
use std::str::FromStr;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tonic::metadata::MetadataMap;

/// What a client may do; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    /// `Read`, `GetForwardingPipelineConfig`, `Capabilities`, and a `StreamChannel` without election id.
    ReadOnly,
    /// `Write`, to be primary, packets.
    TableWriter,
    /// `SetForwardingPipelineConfig`.
    PipelineOwner,
}

impl Power {
    const ALL: [Power; 3] = [Power::ReadOnly, Power::TableWriter, Power::PipelineOwner];
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Power::ReadOnly => "read-only",
            Power::TableWriter => "table-writer",
            Power::PipelineOwner => "pipeline-owner",
        })
    }
}

impl FromStr for Power {
    type Err = String;

    fn from_str(text: &str) -> Result<Power, String> {
        let found = Power::ALL.into_iter().find(|power| power.to_string() == text);
        found.ok_or_else(|| format!("`{text}` is no power; give read-only, table-writer or pipeline-owner"))
    }
}

/// The SHA-256 of a token, so that a configuration does not hold the token. Tokens are to be random, of 128 bits or more: a hash without
/// salt does not protect a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a token.
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

/// Tokens and their powers. None: every client has all power.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Hashes of tokens, with what their holders may do.
    pub tokens: Vec<(TokenHash, Power)>,
}

impl Access {
    /// Whether the sender of a request may do what takes this power.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: no token, or one that is not known. `PERMISSION_DENIED`: its power is not enough.
    pub fn check(&self, metadata: &MetadataMap, needed: Power) -> Result<Power, Refusal> {
        let power = self.power(metadata)?;
        match power >= needed {
            true => Ok(power),
            false => Err(Refusal::new(Code::PermissionDenied, format!("the token is {power}; this takes {needed}"))),
        }
    }

    fn power(&self, metadata: &MetadataMap) -> Result<Power, Refusal> {
        if self.tokens.is_empty() {
            return Ok(Power::PipelineOwner);
        }
        let Some(value) = metadata.get("authorization").and_then(|value| value.to_str().ok()) else {
            return unauthenticated("send a token: `authorization: Bearer TOKEN`");
        };
        match bearer(value) {
            Some(token) => self.power_of(Some(TokenHash::of(token))),
            None => unauthenticated("only bearer tokens are understood: `authorization: Bearer TOKEN`"),
        }
    }

    /// The token that the sender of a request shows, if it is one of those that are listed: who is let in with any token has none.
    pub(super) fn listed(&self, metadata: &MetadataMap) -> Option<TokenHash> {
        shown(metadata).filter(|token| !self.tokens.is_empty() && self.power_of(Some(*token)).is_ok())
    }

    /// The power of who has shown a token, or none.
    pub(super) fn power_of(&self, given: Option<TokenHash>) -> Result<Power, Refusal> {
        if self.tokens.is_empty() {
            return Ok(Power::PipelineOwner);
        }
        let Some(given) = given else { return unauthenticated("send a token: `authorization: Bearer TOKEN`") };
        // All are looked at, whichever it is: the time says nothing.
        let mut found = 0u8;
        for (hash, power) in &self.tokens {
            let is_it: Choice = hash.0.ct_eq(&given.0);
            found = u8::conditional_select(&found, &(*power as u8 + 1), is_it);
        }
        match Power::ALL.get(usize::from(found).wrapping_sub(1)) {
            Some(power) => Ok(*power),
            None => unauthenticated("the token is not known"),
        }
    }
}

fn unauthenticated(why: &str) -> Result<Power, Refusal> {
    Err(Refusal::new(Code::Unauthenticated, why))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token that the sender of a request shows, if it does.
pub(super) fn shown(metadata: &MetadataMap) -> Option<TokenHash> {
    bearer(metadata.get("authorization")?.to_str().ok()?).map(TokenHash::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let tokens = [("r", Power::ReadOnly), ("w", Power::TableWriter), ("o", Power::PipelineOwner)];
        Access { tokens: tokens.map(|(token, power)| (TokenHash::of(token), power)).to_vec() }
    }

    fn metadata(authorization: &str) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        metadata.insert("authorization", authorization.parse().unwrap());
        metadata
    }

    #[test]
    fn a_token_has_its_power_and_those_below() {
        let may = |token: &str, power| access().check(&metadata(&format!("Bearer {token}")), power).map_err(|r| r.code);
        for (token, power) in [("r", Power::ReadOnly), ("w", Power::TableWriter), ("o", Power::PipelineOwner)] {
            for needed in Power::ALL {
                let wanted = if power >= needed { Ok(power) } else { Err(Code::PermissionDenied) };
                assert_eq!(may(token, needed), wanted, "{token} {needed}");
            }
        }
    }

    #[test]
    fn without_a_known_token_nobody_gets_in() {
        let code = |metadata: &MetadataMap| access().check(metadata, Power::ReadOnly).unwrap_err().code;
        assert_eq!(code(&MetadataMap::new()), Code::Unauthenticated);
        for wrong in ["Bearer x", "Bearer ", "Bearer", "Basic r", "r", ""] {
            assert_eq!(code(&metadata(wrong)), Code::Unauthenticated, "{wrong}");
        }
        assert!(access().check(&metadata("bearer r"), Power::ReadOnly).is_ok(), "the scheme has no case");
    }

    #[test]
    fn without_tokens_everybody_may() {
        assert_eq!(Access::default().check(&MetadataMap::new(), Power::PipelineOwner), Ok(Power::PipelineOwner));
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_string(), hash);
        assert_eq!(hash.parse(), Ok(TokenHash::of("abc")));
        for wrong in ["", "ab", &hash.replace('b', "g"), &"é".repeat(32)] {
            assert!(wrong.parse::<TokenHash>().is_err(), "{wrong}");
        }
        assert_eq!("table-writer".parse(), Ok(Power::TableWriter));
        assert!("root".parse::<Power>().is_err());
    }
}
