//! Makes random well-typed programs.
//!
//! Every construct is made so that the front-end must accept it: a refusal is a bug here or there, and the harness counts them.

mod control;
mod expr;
mod externs;
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

/// What can be named at a place of the program.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    /// What can be read.
    pub reads: Vec<(String, Ty)>,
    /// What can be written.
    pub writes: Vec<(String, Ty)>,
    /// Which block it is.
    pub role: Role,
    /// Within an action: no tables can be applied.
    pub in_action: bool,
    /// How deep within a loop: only few statements then.
    pub in_loop: bool,
}

/// A block of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    #[default]
    Parser,
    Ingress,
    Egress,
    Deparser,
}

/// An extern object of a control that statements can use.
#[derive(Clone, Debug)]
pub(crate) enum Object {
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

/// Makes one program.
pub(crate) struct Maker<'a> {
    pub rng: &'a mut Rng,
    pub config: &'a Config,
    pub program: Program,
    /// Objects of the control that is being made.
    pub objects: Vec<Object>,
    /// Tables of the control that are not applied yet, with the actions that `action_run` can be.
    pub unapplied: Vec<(String, Vec<String>)>,
    /// Actions that can be called directly.
    pub callable: Vec<Action>,
    pub loops: bool,
    pub random: bool,
    pub passes: bool,
    pub multicast: bool,
    pub reasons: bool,
    next: usize,
}

/// A random program.
pub fn make(rng: &mut Rng, config: &Config) -> Program {
    let arch = if rng.u8(..100) < config.pna { Arch::Pna } else { Arch::V1Model };
    let mut maker = Maker {
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
        callable: Vec::new(),
        next: 0,
    };
    maker.program.pool = (0..8).map(|_| maker.value()).collect();
    maker.shapes();
    maker.parser();
    match arch {
        Arch::V1Model => maker.v1model(),
        Arch::Pna => maker.pna(),
    }
    maker.program
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

impl Maker<'_> {
    /// True with that many percent.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    /// A new name.
    pub fn name(&mut self, stem: &str) -> String {
        self.next += 1;
        format!("{stem}{}", self.next)
    }

    /// One of some.
    pub fn one<'t, T>(&mut self, of: &'t [T]) -> Option<&'t T> {
        if of.is_empty() { None } else { Some(&of[self.rng.usize(..of.len())]) }
    }

    /// A value that is likely to be interesting.
    pub fn value(&mut self) -> u128 {
        match self.rng.u8(..10) {
            0 => self.rng.u128(..4),
            1 => u128::MAX - self.rng.u128(..3),
            2 => 1 << self.rng.u32(..128),
            3 => self.rng.u128(..256),
            _ => self.rng.u128(..),
        }
    }

    /// A constant: mostly one that packets and entries have as well.
    pub fn constant(&mut self) -> u128 {
        match self.rng.u8(..10) {
            0..6 => self.program.pool[self.rng.usize(..8)],
            6 | 7 => self.rng.u128(..5),
            _ => self.value(),
        }
    }

    /// A width, with a liking for those around machine words.
    pub fn width(&mut self) -> u32 {
        if self.chance(self.config.wide) {
            return [65, 72, 80, 96, 127, 128][self.rng.usize(..6)];
        }
        match self.rng.u8(..10) {
            0..5 => [8, 16, 32, 48, 64, 24][self.rng.usize(..6)],
            5 | 6 => [1, 3, 7, 9, 12, 31, 33, 63][self.rng.usize(..8)],
            _ => self.rng.u32(1..65),
        }
    }

    /// A scalar type.
    pub fn ty(&mut self) -> Ty {
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
