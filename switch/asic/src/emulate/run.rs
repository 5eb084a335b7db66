//! A control while it runs in a pass: in which branches the packet is, and when what they decide is known.

use ir::Block;

/// What decides whether the code that runs is run: from the end of `branch` until the block `join`,
/// where the paths come together.
pub(super) struct Region {
    pub branch: Block,
    pub join: Option<Block>,
    /// The first stage in which a table can be applied.
    pub need: u16,
    /// The first stage that can read what is written.
    pub made: u16,
}

/// A control while it runs in a pass.
#[derive(Default)]
pub(super) struct Run {
    pub pass: u16,
    pub regions: Vec<Region>,
    pub need: u16,
    pub made: u16,
}

impl Run {
    pub fn enter(&mut self, branch: Block, join: Option<Block>, need: u16, made: u16) {
        let mut inner = self.regions.iter_mut().rev().take_while(|region| region.join == join);
        match inner.find(|region| region.branch == branch) {
            Some(again) => (again.need, again.made) = (again.need.max(need), again.made.max(made)),
            None => self.regions.push(Region { branch, join, need, made }),
        }
        (self.need, self.made) = (self.need.max(need), self.made.max(made));
    }

    pub fn leave(&mut self, block: Block) {
        let before = self.regions.len();
        while self.regions.last().is_some_and(|region| region.join == Some(block)) {
            self.regions.pop();
        }
        if self.regions.len() != before {
            self.need = self.regions.iter().map(|region| region.need).max().unwrap_or(0);
            self.made = self.regions.iter().map(|region| region.made).max().unwrap_or(0);
        }
    }
}
