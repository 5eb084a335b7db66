//! [`PoolPrefetch`]: subscribers for which the packets of a queue will probably take a port.
//!
//! A packet that begins a session takes a port, which touches two cache lines of its subscriber, one
//! after the other. Packets with such misses run one by one, so each would wait for both. The number
//! of the subscriber is mostly in the frame before the packet runs. It is only used to prefetch, so
//! it need not be the one that the packet passes in the end.

use crate::analysis::frame_slots::FrameSlot;
use crate::analysis::order::CallSite;
use crate::plan::StagePlan;
use crate::plan::frame_layout::{FrameLayout, type_bytes};
use ir::{ExternArg, ExternFn, ExternId, Inst, Pipeline, Value};

/// Position of the subscriber among the arguments of `PortPool.take`.
const SUBSCRIBER: usize = 2;

/// What to prefetch for a packet that misses a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolPrefetch {
    /// The pool.
    pub pool: ExternId,
    /// Offset of the subscriber's number in a frame: four bytes.
    pub subscriber_offset: u32,
}

/// Returns for each stage the first pool of which its packets take a port, if frames have the
/// subscriber.
pub fn find_pool_prefetches(
    pipeline: &Pipeline,
    plan: &StagePlan,
    layout: &FrameLayout,
    call_sites: &[CallSite],
) -> Vec<Option<PoolPrefetch>> {
    let mut prefetches = vec![None; plan.stages.len()];
    for site in call_sites {
        let Inst::Extern { object: Some(pool), func: ExternFn::PortPoolTake, args } = &site.inst else { continue };
        let Some(ExternArg::Value(subscriber)) = args.get(SUBSCRIBER) else { continue };
        let offset = frame_offset(pipeline, plan, layout, (site.control, *subscriber));
        if let (Some(subscriber_offset), None) = (offset, prefetches[site.stage]) {
            prefetches[site.stage] = Some(PoolPrefetch { pool: *pool, subscriber_offset });
        }
    }
    prefetches
}

/// Returns where frames have a value of four bytes, or the variable that it is loaded from.
fn frame_offset(
    pipeline: &Pipeline,
    plan: &StagePlan,
    layout: &FrameLayout,
    (control, value): (usize, Value),
) -> Option<u32> {
    let body = &pipeline.controls[ir::ControlId(control as u32)].body;
    if type_bytes(body.value_type(value)) != 4 {
        return None;
    }
    if let Some(offset) = layout.values.get(&(control, value)) {
        return Some(*offset);
    }
    let Some(Inst::Load(var)) = body.defining_inst(value).map(|data| &data.inst) else { return None };
    let slot = FrameSlot::Var(*var);
    let index = plan.slots.slots.iter().position(|other| *other == slot)?;
    layout.slots[index]
}
