//! Code for eight packets at once: vectors of 512 bits, a lane for each packet.
//!
//! Most packets take the same way through a stage ([`crate::plan::trace`]), and do the same there. Code for one packet does it four or five instructions a cycle, so that
//! only fewer instructions make it faster: an instruction for eight. It is made of the stage's function for one, so that there is one meaning ([`convert`]); packets
//! that leave the common way are left to that function. What packets carry from stage to stage lies in lists, one for each thing ([`layout`]).
//!
//! | what | where |
//! |---|---|
//! | what the code is made of, and how it is made | [`ir`], `build.rs`, `masks.rs` |
//! | from a stage's function to that | `convert.rs`, `inst.rs`, `reach.rs`, `state.rs`, `ends.rs` |
//! | masks in pairs instead of in a row | `balance.rs` |
//! | which operations become one instruction | `verify.rs`, `plain.rs`, `fuse.rs`, `conditions.rs`, `logic.rs`, `bound.rs` |
//! | machine code of it | `emit.rs`, `alloc.rs`, `assemble.rs`; of operations `values.rs`, `rows.rs`, `lists.rs`, `products.rs` |
//! | where things lie | [`layout`] |
//! | packets and lists | `worker/lanes.rs` |

#[cfg(target_arch = "x86_64")]
mod alloc;
#[cfg(target_arch = "x86_64")]
mod assemble;
mod balance;
mod bound;
pub mod build;
#[cfg(target_arch = "x86_64")]
mod conditions;
mod convert;
#[cfg(target_arch = "x86_64")]
pub mod emit;
mod ends;
#[cfg(target_arch = "x86_64")]
mod fuse;
mod inst;
pub mod ir;
#[cfg(target_arch = "x86_64")]
mod lists;
#[cfg(target_arch = "x86_64")]
mod logic;
mod masks;
#[cfg(target_arch = "x86_64")]
mod plain;
#[cfg(target_arch = "x86_64")]
mod products;
mod reach;
#[cfg(target_arch = "x86_64")]
mod rows;
mod state;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod values;
#[cfg(target_arch = "x86_64")]
mod verify;

use crate::code::compiling::Compiling;
use crate::code::told::Told;
use crate::plan::stages::Start;
use cranelift_codegen::ir as cl;

pub use ir::LANES;

/// Code for eight: takes the context and how many packets wait, at least one.
#[cfg(target_arch = "x86_64")]
pub type LanesFn = unsafe extern "sysv64" fn(context: *mut u8, count: u64);
/// Code for eight: there is none.
#[cfg(not(target_arch = "x86_64"))]
pub type LanesFn = unsafe extern "C" fn(context: *mut u8, count: u64);

/// Whether this machine can run code for eight packets at once.
pub fn supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return emit::supported();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Code for eight packets of a stage's function, if the stage is one that packets come to by the trace, and it has a form.
pub fn code(c: &Compiling<'_>, func: &cl::Function, told: &Told, stage: usize) -> Option<Vec<u8>> {
    let layout = c.memory.lanes.as_ref()?;
    let start = c.plan.stages[stage].start;
    let common = match start {
        Start::Begin => true,
        Start::Site(node, _) => c.plan.flow.looks_up(node),
        _ => false,
    };
    if !common {
        return None;
    }
    let made = convert::convert(c, func, told, layout, stage);
    if std::env::var_os("TERRACE_JIT_DUMP").is_some() {
        eprintln!("eight packets at stage {stage}: {made:#?}");
    }
    machine_code(&balance::balanced(made.ok()?))
}

/// Machine code of it.
fn machine_code(code: &ir::Code) -> Option<Vec<u8>> {
    #[cfg(target_arch = "x86_64")]
    return match emit::emit(code) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            debug_assert!(false, "{error}");
            None
        }
    };
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = code;
        None
    }
}
