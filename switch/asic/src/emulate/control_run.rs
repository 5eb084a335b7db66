//! State of a control that runs in a pass: enclosing branches, and the stages in which their
//! decisions are known.

use ir::Block;

/// Region of code that a branch controls: from the end of `branch` to the block `join` where the
/// paths join.
pub(super) struct ControlRegion {
    pub branch: Block,
    pub join: Option<Block>,
    /// First stage in which a table can be applied.
    pub apply_stage: u16,
    /// First stage that can read written values.
    pub ready_stage: u16,
}

/// State of a control that runs in a pass.
#[derive(Default)]
pub(super) struct ControlRun {
    pub pass: u16,
    pub regions: Vec<ControlRegion>,
    pub apply_stage: u16,
    pub ready_stage: u16,
}

impl ControlRun {
    pub fn enter_region(&mut self, branch: Block, join: Option<Block>, need: u16, made: u16) {
        let mut inner = self.regions.iter_mut().rev().take_while(|region| region.join == join);
        match inner.find(|region| region.branch == branch) {
            Some(again) => {
                (again.apply_stage, again.ready_stage) = (again.apply_stage.max(need), again.ready_stage.max(made))
            }
            None => self.regions.push(ControlRegion { branch, join, apply_stage: need, ready_stage: made }),
        }
        (self.apply_stage, self.ready_stage) = (self.apply_stage.max(need), self.ready_stage.max(made));
    }

    pub fn leave_regions(&mut self, block: Block) {
        let before = self.regions.len();
        while self.regions.last().is_some_and(|region| region.join == Some(block)) {
            self.regions.pop();
        }
        if self.regions.len() != before {
            self.apply_stage = self.regions.iter().map(|region| region.apply_stage).max().unwrap_or(0);
            self.ready_stage = self.regions.iter().map(|region| region.ready_stage).max().unwrap_or(0);
        }
    }
}
