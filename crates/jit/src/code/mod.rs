//! From a plan to native code.
#![allow(unsafe_code)]

mod apply;
mod bytes;
mod call;
mod compare;
pub mod compiling;
mod frame;
mod glue;
mod hash;
mod header;
mod held;
mod inst;
pub mod machine;
mod makers;
mod noted;
pub mod registers;
mod stage;
mod state;
mod stores;
mod sums;
pub mod told;
mod unused;
mod value;
mod ways;
mod words;

use crate::abi::StageFn;
use crate::lanes::{self, LanesFn};
use compiling::Compiling;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use machine::{CompileError, isa};
use makers::{MAKERS, Made, Makers, Waiting};
use parking_lot::Mutex;
use stage::StageCode;
use std::sync::mpsc;

/// The native code of a pipeline: a function for each stage, in the plan's order.
pub struct Native {
    stages: Vec<StageFn>,
    lanes: Vec<Option<LanesFn>>,
    bytes: usize,
    module: Option<JITModule>,
}

// SAFETY: after it is made the code only changes when it is freed, which takes the last owner.
unsafe impl Send for Native {}
// SAFETY: as above; the module itself is not touched before.
unsafe impl Sync for Native {}

impl Drop for Native {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the functions are only called through `stages`, by engines that own this value.
            unsafe { module.free_memory() };
        }
    }
}

impl Native {
    /// The stages' functions.
    pub fn stages(&self) -> &[StageFn] {
        &self.stages
    }

    /// For each stage its code for eight packets at once, if there is any.
    pub fn lanes(&self) -> &[Option<LanesFn>] {
        &self.lanes
    }

    /// Length of the code in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Makes the code: functions one by one, and machine code of them by other threads meanwhile.
pub fn compile(c: &Compiling<'_>) -> Result<Native, CompileError> {
    let isa = isa("speed")?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa.clone(), default_libcall_names()));
    let dump = std::env::var_os("TERRACE_JIT_DUMP").is_some();
    let makers = Makers::new(&*isa);
    let (sender, waiting) = mpsc::channel();
    let waiting = Mutex::new(waiting);
    let (ids, lanes) = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAKERS);
        // Without them this thread makes all.
        let another = || std::thread::Builder::new().spawn_scoped(scope, || makers.make(&waiting)).ok();
        let others: Vec<_> = (1..threads).filter_map(|_| another()).collect();
        let ids = functions(c, &mut module, &sender, dump);
        drop(sender);
        let own = makers.make(&waiting);
        let joined = others.into_iter().map(|maker| match maker.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.fold(own, Result::and).and(ids)
    })?;
    let mut bytes = 0;
    for Made { id, code, alignment, relocs, text } in makers.made() {
        text.iter().for_each(|text| eprintln!("{text}"));
        module.define_function_bytes(id, alignment, &code, &relocs)?;
        bytes += code.len();
    }
    let mut eights = Vec::new();
    for (index, code) in lanes.into_iter().enumerate() {
        let Some(code) = code else {
            eights.push(None);
            continue;
        };
        let id = module.declare_function(&format!("lanes{index}"), Linkage::Local, &module.make_signature())?;
        module.define_function_bytes(id, LANES_ALIGNMENT, &code, &[])?;
        bytes += code.len();
        eights.push(Some(id));
    }
    module.finalize_definitions()?;
    // SAFETY: the functions were made with this signature.
    let stages =
        ids.iter().map(|id| unsafe { std::mem::transmute::<*const u8, StageFn>(module.get_finalized_function(*id)) });
    let stages = stages.collect();
    // SAFETY: as above.
    let lane = |id: FuncId| unsafe { std::mem::transmute::<*const u8, LanesFn>(module.get_finalized_function(id)) };
    let lanes = eights.into_iter().map(|id| id.map(lane)).collect();
    Ok(Native { stages, lanes, bytes, module: Some(module) })
}

/// Machine code of a stage for eight packets at once, if there is any.
type Eights = Option<Vec<u8>>;

/// Makes a function for each stage.
fn functions(
    c: &Compiling<'_>,
    module: &mut JITModule,
    sender: &mpsc::Sender<Waiting>,
    dump: bool,
) -> Result<(Vec<FuncId>, Vec<Eights>), CompileError> {
    let mut builder_context = FunctionBuilderContext::new();
    let (mut ids, mut eights) = (Vec::new(), Vec::new());
    for (index, stage) in c.plan.stages.iter().enumerate() {
        c.stage.set(index);
        let mut signature = module.make_signature();
        signature.params.extend([cl::AbiParam::new(I64); 2]);
        let id = module.declare_function(&format!("stage{index}"), Linkage::Local, &signature)?;
        let mut func = cl::Function::with_name_signature(cl::UserFuncName::user(0, id.as_u32()), signature);
        let builder = FunctionBuilder::new(&mut func, &mut builder_context);
        let (builder, told) = StageCode::make(c, builder, stage.start, &stage.nodes);
        builder.finalize(module.target_config());
        unused::remove(&mut func);
        eights.push(lanes::code(c, &func, &told, index));
        if dump {
            eprintln!("{:?}\n{}", stage.start, func.display());
        }
        ids.push(id);
        // The other end is there for as long as this runs.
        let _ = sender.send(Waiting { id, func, shown: dump });
    }
    Ok((ids, eights))
}

/// On which multiple of bytes code for eight packets begins.
const LANES_ALIGNMENT: u64 = 64;
