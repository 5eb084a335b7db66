//! Code generation: from a plan to native code.
#![allow(unsafe_code)]

mod add_entry;
pub mod annotations;
mod apply;
mod arch_steps;
mod bytes;
mod call;
mod checksum;
mod checksum_words;
mod compare;
mod compile_pool;
pub mod compiling;
mod dead_loads;
mod edges;
mod field_cache;
mod frame;
mod hash;
mod header;
mod inst;
pub mod machine;
mod recording;
pub mod registers;
mod stage;
mod state;
mod stores;
mod value;

use crate::abi::StageFn;
use crate::lanes::{self, LanesFn};
use compile_pool::{CompileJob, CompilePool, CompiledFunction, MAX_COMPILE_THREADS};
use compiling::CodegenContext;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use machine::{CompileError, target_isa};
use parking_lot::Mutex;
use stage::StageBuilder;
use std::sync::mpsc;

/// Native code of a pipeline: a function for each stage, in the plan's order.
pub struct NativeCode {
    stages: Vec<StageFn>,
    lanes: Vec<Option<LanesFn>>,
    bytes: usize,
    module: Option<JITModule>,
}

// SAFETY: after construction the code changes only when it is freed, which requires the last owner.
unsafe impl Send for NativeCode {}
// SAFETY: after construction the code changes only when it is freed; the module is not accessed
// before.
unsafe impl Sync for NativeCode {}

impl Drop for NativeCode {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the functions are only called through `stages`, by engines that own this
            // value.
            unsafe { module.free_memory() };
        }
    }
}

impl NativeCode {
    /// Returns the functions of the stages.
    pub fn stages(&self) -> &[StageFn] {
        &self.stages
    }

    /// Returns the vector code of each stage, if any.
    pub fn lanes(&self) -> &[Option<LanesFn>] {
        &self.lanes
    }

    /// Returns the length of the code in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Compiles all stages: this thread builds the functions while others compile them to machine code.
/// Vector code is already assembled and only placed. `TERRACE_JIT_DUMP` prints all code.
pub fn compile(c: &CodegenContext<'_>) -> Result<NativeCode, CompileError> {
    let isa = target_isa("speed")?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa.clone(), default_libcall_names()));
    let dump = std::env::var_os("TERRACE_JIT_DUMP").is_some();
    let pool = CompilePool::new(&*isa);
    let (sender, jobs) = mpsc::channel();
    let jobs = Mutex::new(jobs);
    let (ids, lanes) = std::thread::scope(|scope| {
        let thread_count = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_COMPILE_THREADS);
        // If no thread can be started, this thread compiles all functions.
        let spawn_thread = || std::thread::Builder::new().spawn_scoped(scope, || pool.compile_queued(&jobs)).ok();
        let threads: Vec<_> = (1..thread_count).filter_map(|_| spawn_thread()).collect();
        let ids = build_functions(c, &mut module, &sender, dump);
        drop(sender);
        let own_result = pool.compile_queued(&jobs);
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.fold(own_result, Result::and).and(ids)
    })?;
    let mut bytes = 0;
    for CompiledFunction { id, code, alignment, relocs, text } in pool.into_functions() {
        text.iter().for_each(|text| eprintln!("{text}"));
        module.define_function_bytes(id, alignment, &code, &relocs)?;
        bytes += code.len();
    }
    let mut vector_codes = Vec::new();
    for (index, code) in lanes.into_iter().enumerate() {
        let Some(code) = code else {
            vector_codes.push(None);
            continue;
        };
        let id = module.declare_function(&format!("lanes{index}"), Linkage::Local, &module.make_signature())?;
        module.define_function_bytes(id, LANES_ALIGNMENT, &code, &[])?;
        bytes += code.len();
        vector_codes.push(Some(id));
    }
    module.finalize_definitions()?;
    // SAFETY: the functions were compiled with this signature.
    let stages =
        ids.iter().map(|id| unsafe { std::mem::transmute::<*const u8, StageFn>(module.get_finalized_function(*id)) });
    let stages = stages.collect();
    // SAFETY: the functions were compiled with this signature.
    let lane = |id: FuncId| unsafe { std::mem::transmute::<*const u8, LanesFn>(module.get_finalized_function(id)) };
    let lanes = vector_codes.into_iter().map(|id| id.map(lane)).collect();
    Ok(NativeCode { stages, lanes, bytes, module: Some(module) })
}

/// Vector machine code of a stage, if any.
type VectorMachineCode = Option<Vec<u8>>;

/// Builds a function for each stage and sends it to the compiling threads. Returns the functions'
/// ids, and each stage's vector code if it has some. `dump`: whether to print the code.
fn build_functions(
    c: &CodegenContext<'_>,
    module: &mut JITModule,
    sender: &mpsc::Sender<CompileJob>,
    dump: bool,
) -> Result<(Vec<FuncId>, Vec<VectorMachineCode>), CompileError> {
    let mut builder_context = FunctionBuilderContext::new();
    let (mut ids, mut vector_codes) = (Vec::new(), Vec::new());
    for (index, stage) in c.plan.stages.iter().enumerate() {
        c.stage.set(index);
        let mut signature = module.make_signature();
        signature.params.extend([cl::AbiParam::new(I64); 2]);
        let id = module.declare_function(&format!("stage{index}"), Linkage::Local, &signature)?;
        let mut func = cl::Function::with_name_signature(cl::UserFuncName::user(0, id.as_u32()), signature);
        let builder = FunctionBuilder::new(&mut func, &mut builder_context);
        let (builder, annotations) = StageBuilder::build_stage(c, builder, stage.start, &stage.nodes);
        builder.finalize(module.target_config());
        dead_loads::remove_dead_loads(&mut func);
        vector_codes.push(lanes::compile_stage(c, &func, &annotations, index));
        if dump {
            eprintln!("{:?}\n{}", stage.start, func.display());
        }
        ids.push(id);
        // The receiver exists for as long as this runs.
        let _ = sender.send(CompileJob { id, func, shown: dump });
    }
    Ok((ids, vector_codes))
}

/// Alignment of vector code in bytes.
const LANES_ALIGNMENT: u64 = 64;
