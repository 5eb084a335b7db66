//! `rte_acl`: multi-bit tries for rules with priorities. A change requires a complete rebuild.

use super::{Eal, PeerError, ffi, unique_name};
use crate::data::Rule;
use std::ffi::c_void;
use std::marker::PhantomData;

/// A rule in the form of the C layer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AclRule {
    source: u32,
    source_len: u32,
    destination: u32,
    destination_len: u32,
    source_port: [u16; 2],
    destination_port: [u16; 2],
    protocol: u8,
    protocol_mask: u8,
    pad: [u8; 2],
    priority: i32,
    id: u32,
}

/// A packet's 5-tuple in the form of `rte_acl`: in network order, 16 bytes.
pub type AclKey = [u8; 16];

/// Returns the key of a 5-tuple in host order.
pub fn key(source: u32, destination: u32, source_port: u16, destination_port: u16, protocol: u8) -> AclKey {
    let mut key = [0; 16];
    key[0] = protocol;
    key[4..8].copy_from_slice(&source.to_be_bytes());
    key[8..12].copy_from_slice(&destination.to_be_bytes());
    key[12..14].copy_from_slice(&source_port.to_be_bytes());
    key[14..16].copy_from_slice(&destination_port.to_be_bytes());
    key
}

/// A built `rte_acl` classifier.
#[derive(Debug)]
pub struct Acl<'e> {
    acl: *mut c_void,
    eal: PhantomData<&'e Eal>,
}

impl<'e> Acl<'e> {
    /// Builds a classifier of `rules`. The first has the highest precedence, and rule `i` has the
    /// id `i + 1`. Uses the fastest algorithm on this machine, as `rte_acl` chooses.
    ///
    /// # Errors
    /// If there is not enough memory, or the library refuses a rule.
    pub fn build(_eal: &'e Eal, rules: &[Rule]) -> Result<Acl<'e>, PeerError> {
        let made: Vec<AclRule> = rules.iter().enumerate().map(|(at, rule)| acl_rule(at, rules.len(), rule)).collect();
        // SAFETY: the array has the given number of rules, in the C layer's form; the library
        // copies them.
        let acl = unsafe { ffi::tb_acl_new(unique_name().as_ptr(), made.as_ptr(), made.len() as u32) };
        if acl.is_null() {
            return Err(PeerError::Create { library: "rte_acl", entries: rules.len() });
        }
        Ok(Acl { acl, eal: PhantomData })
    }

    /// Classifies all keys. Writes the id of the matching rule of highest precedence to `out`, or
    /// 0.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn classify(&self, keys: &[AclKey], out: &mut [u32]) -> Result<(), PeerError> {
        let n = keys.len().min(out.len()).min(u32::MAX as usize);
        // SAFETY: both arrays have at least `n` elements; a key has the 16 bytes of the fields.
        match unsafe { ffi::tb_acl_classify(self.acl, keys.as_ptr().cast(), out.as_mut_ptr(), n as u32) } {
            0 => Ok(()),
            code => Err(PeerError::Refused { library: "rte_acl", index: 0, code }),
        }
    }
}

fn acl_rule(at: usize, rules: usize, rule: &Rule) -> AclRule {
    AclRule {
        source: rule.source.0,
        source_len: u32::from(rule.source.1),
        destination: rule.destination.0,
        destination_len: u32::from(rule.destination.1),
        source_port: rule.source_port.into(),
        destination_port: rule.destination_port.into(),
        protocol: rule.protocol.0,
        protocol_mask: rule.protocol.1,
        pad: [0; 2],
        priority: (rules - at) as i32,
        id: at as u32 + 1,
    }
}

impl Drop for Acl<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is freed once.
        unsafe { ffi::tb_acl_free(self.acl) };
    }
}
