//! Generates random well-typed programs.
//!
//! The front-end must accept every generated program. A refusal is a bug of the generator or the
//! front-end; the harness counts refusals.

mod control;
mod expr;
mod externs;
mod learning;
mod parser;
mod pna;
mod shapes;
mod stmt;
mod table;
mod v1model;

use super::config::Config;
use super::tree::*;
use fastrand::Rng;
use ir::Arch;

/// Names in scope at a point of the program.
#[derive(Clone, Default)]
pub(crate) struct ScopeNames {
    /// Readable variables with their types.
    pub reads: Vec<(String, Ty)>,
    /// Writable variables with their types.
    pub writes: Vec<(String, Ty)>,
    /// Block that the scope belongs to.
    pub role: BlockRole,
    /// Whether the scope is in an action, where tables cannot be applied.
    pub in_action: bool,
    /// Whether the scope is in a loop, which has only few statements.
    pub in_loop: bool,
}

/// A programmable block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum BlockRole {
    #[default]
    Parser,
    Ingress,
    Egress,
    Deparser,
}

/// An extern object of a control that statements can use.
#[derive(Clone, Debug)]
pub(crate) enum ExternObject {
    Counter { name: String, size: u64, index: u32 },
    Meter { name: String, size: u64, index: u32 },
    Register { name: String, size: u64, index: u32, ty: Ty },
    PairRegister { name: String, size: u64, index: u32, ty: [Ty; 2] },
    Random { name: String, ty: Ty },
    Hash { name: String, ty: Ty },
    Checksum { name: String, ty: Ty },
    InternetChecksum { name: String },
    Digest { name: String, types: Vec<Ty> },
}

/// Generator of one program.
pub(crate) struct ProgramGenerator<'a> {
    pub rng: &'a mut Rng,
    pub config: &'a Config,
    pub program: Program,
    /// Objects of the current control.
    pub objects: Vec<ExternObject>,
    /// Tables of the current control that are not applied yet, with the possible values of
    /// `action_run`.
    pub unapplied: Vec<(String, Vec<String>)>,
    /// Tables of the current control that packets which miss apply a second time.
    pub applied_twice: Vec<String>,
    /// Actions that can be called directly.
    pub callable: Vec<Action>,
    pub loops: bool,
    pub random: bool,
    pub passes: bool,
    pub multicast: bool,
    pub reasons: bool,
    next: usize,
}

/// Generates a random program.
pub fn generate_program(rng: &mut Rng, config: &Config) -> Program {
    let arch = if rng.u8(..100) < config.pna { Arch::Pna } else { Arch::V1Model };
    let mut generator = ProgramGenerator {
        loops: rng.u8(..100) < config.loops,
        random: rng.u8(..100) < config.random,
        passes: rng.u8(..100) < config.passes,
        multicast: rng.u8(..100) < config.multicast,
        reasons: rng.u8(..100) < 25,
        rng,
        config,
        program: empty(arch),
        objects: Vec::new(),
        unapplied: Vec::new(),
        applied_twice: Vec::new(),
        callable: Vec::new(),
        next: 0,
    };
    generator.program.pool = (0..8).map(|_| generator.random_value()).collect();
    generator.generate_types();
    generator.generate_parser();
    match arch {
        Arch::V1Model => generator.generate_v1model(),
        Arch::Pna => generator.generate_pna(),
    }
    generator.program
}

fn empty(arch: Arch) -> Program {
    Program {
        arch,
        pool: Vec::new(),
        types: Vec::new(),
        headers: Vec::new(),
        instances: Vec::new(),
        metadata: Vec::new(),
        value_sets: Vec::new(),
        states: Vec::new(),
        verify: Vec::new(),
        ingress: Control::default(),
        egress: Control::default(),
        compute: Vec::new(),
        deparser_declarations: Vec::new(),
        deparser: Vec::new(),
    }
}

impl ProgramGenerator<'_> {
    /// Returns true with a probability of `percent` per cent.
    pub fn true_with_percent(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    /// Returns an unused name.
    pub fn fresh_name(&mut self, stem: &str) -> String {
        self.next += 1;
        format!("{stem}{}", self.next)
    }

    /// Returns a random element.
    pub fn random_element<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        if of.is_empty() { None } else { Some(&of[self.rng.usize(..of.len())]) }
    }

    /// Returns a value from a distribution that prefers boundary values.
    pub fn random_value(&mut self) -> u128 {
        match self.rng.u8(..10) {
            0 => self.rng.u128(..4),
            1 => u128::MAX - self.rng.u128(..3),
            2 => 1 << self.rng.u32(..128),
            3 => self.rng.u128(..256),
            _ => self.rng.u128(..),
        }
    }

    /// Returns a constant, mostly one that packets and entries use as well.
    pub fn random_constant(&mut self) -> u128 {
        match self.rng.u8(..10) {
            0..6 => self.program.pool[self.rng.usize(..8)],
            6 | 7 => self.rng.u128(..5),
            _ => self.random_value(),
        }
    }

    /// Returns a width, preferring those near machine word sizes.
    pub fn width(&mut self) -> u32 {
        if self.true_with_percent(self.config.wide) {
            return [65, 72, 80, 96, 127, 128][self.rng.usize(..6)];
        }
        match self.rng.u8(..10) {
            0..5 => [8, 16, 32, 48, 64, 24][self.rng.usize(..6)],
            5 | 6 => [1, 3, 7, 9, 12, 31, 33, 63][self.rng.usize(..8)],
            _ => self.rng.u32(1..65),
        }
    }

    /// Returns a scalar type.
    pub fn random_type(&mut self) -> Ty {
        let width = self.width();
        match self.rng.u8(..100) {
            0..6 => Ty::Bool,
            roll if roll < 6 + self.config.signed => Ty::Int(width),
            _ => Ty::Bit(width),
        }
    }

    pub fn arch(&self) -> Arch {
        self.program.arch
    }
}
