//! [`Ways`]: what is known of each way that packets took.

use super::Unrewritable;
use super::template::Template;
use std::collections::HashMap;

/// The most ways that are known: of others, each packet is looked at by itself.
const MOST: usize = 4_096;

/// The most decisions of a way that is known, so that what is known of all of them stays small.
const LONGEST: usize = 1_024;

/// What is known of a way.
#[derive(Debug)]
pub enum Way {
    /// What its rewrites have in common; and once there are any, under which number it is kept ([`super::flows::Flows::share`]).
    Template(Box<Template>, Option<u32>),
    /// Values decide what its rewrites look like.
    ByValue,
    /// It can't be said as a rewrite, whatever the values are.
    Never(Unrewritable),
}

/// Ways by all their decisions, hashed with a seed.
#[derive(Debug, Default)]
pub struct Ways {
    known: HashMap<Box<[u32]>, Way, foldhash::fast::RandomState>,
}

impl Ways {
    pub fn get(&mut self, decisions: &[u32]) -> Option<&mut Way> {
        self.known.get_mut(decisions)
    }

    pub fn learn(&mut self, decisions: &[u32], way: Way) {
        if self.known.len() < MOST && decisions.len() <= LONGEST {
            self.known.insert(decisions.into(), way);
        }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }
}

impl Unrewritable {
    /// Whether it holds for all packets of a way.
    pub(super) fn is_of_the_way(self) -> bool {
        use Unrewritable::*;
        match self {
            Meter | Register | Random | Time | Digest | AddEntry | Timer | Group | Copies | Payload | Truncate
            | TooDeep | TooMuch => true,
            Checksum | ToCpu | Aborted | Shapes | NoRoom => false,
        }
    }
}
