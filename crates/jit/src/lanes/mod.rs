//! Vector code: eight packets at once in vectors of 512 bits, one lane for each packet.
//!
//! Most packets take the same path through a stage ([`crate::plan::hot_path`]) and do the same
//! there. Scalar code already runs at four or five instructions per cycle, so that only fewer
//! instructions make it faster. Vector code is converted from the stage's scalar function, because
//! the semantics are then defined once ([`convert`]). Packets that leave the hot path diverge to
//! that function. Values carried between stages are stored in lists, one for each
//! ([`layout`](crate::plan::vector_layout)).
//!
//! | contents | files |
//! |---|---|
//! | vector IR and its builder | [`ir`], `build.rs`, `masks.rs` |
//! | conversion of a stage's function | `{convert,inst,memory_access,state,exits}.rs` |
//! | balancing of mask chains | `balance.rs` |
//! | instruction selection | `{verify,value_numbering,select,conditions,logic,bound}.rs` |
//! | machine code | `{emit,regalloc,assemble,values,rows,lists,products}.rs` |
//! | memory layout | [`layout`](crate::plan::vector_layout) |
//! | run time | `worker/vector.rs` |

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
mod exits;
mod inst;
pub mod ir;
#[cfg(target_arch = "x86_64")]
mod lists;
#[cfg(target_arch = "x86_64")]
mod logic;
mod masks;
mod memory_access;
#[cfg(target_arch = "x86_64")]
mod products;
#[cfg(target_arch = "x86_64")]
mod regalloc;
#[cfg(target_arch = "x86_64")]
mod rows;
#[cfg(target_arch = "x86_64")]
mod select;
mod state;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod value_numbering;
#[cfg(target_arch = "x86_64")]
mod values;
#[cfg(target_arch = "x86_64")]
mod verify;

use crate::code::annotations::StageAnnotations;
use crate::code::compiling::CodegenContext;
use crate::plan::stages::StageEntry;
use cranelift_codegen::ir as cl;

pub use ir::LANES;

/// Vector code of a stage: takes the context and the length of the queue, at least one.
#[cfg(target_arch = "x86_64")]
pub type LanesFn = unsafe extern "sysv64" fn(context: *mut u8, count: u64);
/// Vector code of a stage, which does not exist on this machine.
#[cfg(not(target_arch = "x86_64"))]
pub type LanesFn = unsafe extern "C" fn(context: *mut u8, count: u64);

/// Returns whether this machine supports vector code.
pub fn supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return emit::supported();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Compiles the vector code of a stage, if packets reach the stage by the hot path and vector code
/// supports it.
pub fn compile_stage(
    c: &CodegenContext<'_>,
    func: &cl::Function,
    annotations: &StageAnnotations,
    stage: usize,
) -> Option<Vec<u8>> {
    let layout = c.memory.vector.as_ref()?;
    let start = c.plan.stages[stage].start;
    let is_on_hot_path = match start {
        StageEntry::Begin => true,
        StageEntry::Table(node, _) => c.plan.flow.starts_lookup_stage(node),
        _ => false,
    };
    if !is_on_hot_path {
        return None;
    }
    let code = convert::vectorize_stage(c, func, annotations, layout, stage);
    if std::env::var_os("TERRACE_JIT_DUMP").is_some() {
        eprintln!("vector code of stage {stage}: {code:#?}");
    }
    machine_code(&balance::balance_masks(code.ok()?))
}

/// Emits the machine code of vector code.
fn machine_code(code: &ir::VectorCode) -> Option<Vec<u8>> {
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
