//! What a worker keeps to take packets through the stages eight at a time.

use crate::abi::LINE;
use crate::memory::Line;
use crate::plan::lanes::MOST_BYTES;
use crate::program::Program;

/// What a worker has for that.
pub struct Eights {
    /// Memory that stands for packets that are not there.
    pub nowhere: Vec<Line>,
    /// For each stage, how it goes.
    pub goes: Vec<Goes>,
    /// Packets that came to stages, and those of them that were left.
    pub all: [u64; 2],
}

/// How code for eight goes at a stage.
#[derive(Clone, Copy, Default)]
pub struct Goes {
    /// Packets that came since it was asked last.
    came: u32,
    /// Of them those that were left to code for one.
    left: u32,
    /// How many more chunks it rests.
    rests: u32,
}

/// If more than one of so many packets is left, code for eight is no gain.
const TOO_MANY: u32 = 3;
/// After so many packets it is asked.
const ASKED: u32 = 1 << 14;
/// So many chunks it rests then.
const RESTS: u32 = 1 << 12;

impl Eights {
    pub fn new(program: &Program) -> Option<Eights> {
        program.memory.lanes.as_ref()?;
        let goes = vec![Goes::default(); program.stages.len()];
        Some(Eights { nowhere: Line::zeros(MOST_BYTES as usize + LINE), goes, all: [0; 2] })
    }
}

impl Goes {
    /// Whether code for eight runs this time.
    pub fn runs(&mut self) -> bool {
        if self.rests == 0 {
            return true;
        }
        self.rests -= 1;
        false
    }

    pub fn went(&mut self, came: usize, left: usize) {
        (self.came, self.left) = (self.came + came as u32, self.left + left as u32);
        if self.came >= ASKED {
            let rests = if self.left > self.came / TOO_MANY { RESTS } else { 0 };
            *self = Goes { rests, ..Goes::default() };
        }
    }
}

/// A packet that code for eight has left to code for one: its frame, and what was looked up for it.
pub struct Left {
    pub frame: *mut u8,
    pub results: [u64; 2],
}
