//! From a plan to native code.
#![allow(unsafe_code)]

mod apply;
mod bytes;
mod call;
mod compare;
mod frame;
mod glue;
mod header;
mod held;
mod inst;
mod noted;
mod stage;
mod stores;
mod sums;
mod unused;
mod value;
mod ways;
mod words;

pub use call::CallSite;
pub use noted::Recording;
pub use stage::{steady, trusted};

use crate::abi::{Helpers, StageFn};
use crate::layout::Layout;
use crate::memory::MemoryLayout;
use crate::plan::Plan;
use crate::tally::Places;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleReloc, default_libcall_names};
use ir::{Inst, Pipeline, TableId, Type};
use stage::StageCode;
use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError};
use tables::fast::LookupShape;
use thiserror::Error;

/// What code is made from.
pub struct Compiling<'a> {
    /// The program.
    pub pipeline: &'a Pipeline,
    /// What is known of it.
    pub plan: &'a Plan,
    /// Where things lie in frames.
    pub layout: &'a Layout,
    /// Where things lie behind the context.
    pub memory: MemoryLayout,
    /// Keys and values of each table.
    pub shapes: Vec<LookupShape>,
    /// Functions of the engine.
    pub helpers: Helpers,
    /// How functions are called on this machine.
    pub call_conv: CallConv,
    /// For each extern object that is a counter counted in place, how many elements.
    pub counters: Vec<Option<u64>>,
    /// Where a worker counts what it does.
    pub places: Places,
    /// For each stage, which of the plan's starts it counts as.
    pub slots: Vec<usize>,
    /// For each table, whether the interpreter's bookkeeping is told of hits.
    pub notes_hits: Vec<bool>,
    /// For each table, whether anybody asks which entry was hit.
    pub keeps_hits: Vec<bool>,
    /// What packets do is noted.
    pub recording: Option<Recording>,
    /// How many states the parser may enter, if it can loop.
    pub state_limit: Option<u64>,
    /// Whether some object keeps data while a packet is in a body.
    pub keeps_packet_state: bool,
    /// Whether the deparser calls externs.
    pub deparser_calls: bool,
    /// Whether packets may be truncated.
    pub truncates: bool,
    /// Calls that the interpreter's code carries out.
    pub sites: RefCell<Vec<CallSite>>,
    /// The stages that tell of hits, with the table.
    pub told: RefCell<Vec<(usize, TableId)>>,
    /// The stage that is being made.
    pub stage: Cell<usize>,
}

impl Compiling<'_> {
    /// Registers a call, gives its number.
    fn site(&self, control: usize, inst: &Inst, results: Vec<Type>) -> usize {
        let mut sites = self.sites.borrow_mut();
        sites.push(CallSite { stage: self.stage.get(), control, inst: inst.clone(), results });
        sites.len() - 1
    }
}

/// Making code failed.
#[derive(Debug, Error)]
#[error("no native code on this machine: {0}")]
pub struct CompileError(String);

impl From<cranelift_module::ModuleError> for CompileError {
    fn from(error: cranelift_module::ModuleError) -> CompileError {
        CompileError(error.to_string())
    }
}

/// The native code of a pipeline: a function for each stage, in the plan's order.
pub struct Native {
    stages: Vec<StageFn>,
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

    /// Length of the code in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The machine's instruction set. With "none" for a level code is as it is laid down, with "speed" it is made better.
pub fn isa(level: &str) -> Result<cranelift_codegen::isa::OwnedTargetIsa, CompileError> {
    let mut flags = settings::builder();
    let set = [("opt_level", level), ("use_colocated_libcalls", "false"), ("is_pic", "false")];
    for (name, value) in
        set.into_iter().chain([("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" })])
    {
        flags.set(name, value).map_err(|error| CompileError(error.to_string()))?;
    }
    let builder = cranelift_native::builder().map_err(|error| CompileError(error.to_owned()))?;
    builder.finish(settings::Flags::new(flags)).map_err(|error| CompileError(error.to_string()))
}

/// How functions are called on this machine.
pub fn call_conv() -> Result<CallConv, CompileError> {
    Ok(isa("speed")?.default_call_conv())
}

/// Makes the code: functions one by one, and machine code of them by several threads.
pub fn compile(c: &Compiling<'_>) -> Result<Native, CompileError> {
    let isa = isa("speed")?;
    let mut module = JITModule::new(JITBuilder::with_isa(isa.clone(), default_libcall_names()));
    let mut builder_context = FunctionBuilderContext::new();
    let dump = std::env::var_os("TERRACE_JIT_DUMP").is_some();
    let (mut ids, mut contexts) = (Vec::new(), Vec::new());
    for (index, stage) in c.plan.stages.iter().enumerate() {
        c.stage.set(index);
        let mut signature = module.make_signature();
        signature.params.extend([cl::AbiParam::new(I64); 2]);
        let id = module.declare_function(&format!("stage{index}"), Linkage::Local, &signature)?;
        let mut func = cl::Function::with_name_signature(cl::UserFuncName::user(0, id.as_u32()), signature);
        let builder = FunctionBuilder::new(&mut func, &mut builder_context);
        let builder = StageCode::make(c, builder, stage.start, &stage.nodes);
        builder.finalize(module.target_config());
        unused::remove(&mut func);
        if dump {
            eprintln!("{:?}\n{}", stage.start, func.display());
        }
        let mut context = cranelift_codegen::Context::for_function(func);
        context.set_disasm(dump);
        ids.push(id);
        contexts.push(context);
    }
    let mut bytes = 0;
    for (id, context) in ids.iter().zip(machine_code(contexts, &*isa)?) {
        let Some(code) = context.compiled_code() else { continue };
        if let Some(text) = code.vcode.as_ref().filter(|_| dump) {
            eprintln!("{text}");
        }
        let relocs = code.buffer.relocs().iter();
        let relocs: Vec<ModuleReloc> =
            relocs.map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, *id)).collect();
        module.define_function_bytes(*id, u64::from(code.buffer.alignment), code.code_buffer(), &relocs)?;
        bytes += code.code_buffer().len();
    }
    module.finalize_definitions()?;
    // SAFETY: the functions were made with this signature.
    let stages =
        ids.iter().map(|id| unsafe { std::mem::transmute::<*const u8, StageFn>(module.get_finalized_function(*id)) });
    Ok(Native { stages: stages.collect(), bytes, module: Some(module) })
}

/// The most threads that make code together.
const MAKERS: usize = 8;

/// Compiles functions, by as many threads as there are processors for them.
fn machine_code(
    contexts: Vec<cranelift_codegen::Context>,
    isa: &dyn TargetIsa,
) -> Result<Vec<cranelift_codegen::Context>, CompileError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAKERS);
    // Long ones first, so that none is left at the end.
    let mut work: Vec<(usize, cranelift_codegen::Context)> = contexts.into_iter().enumerate().collect();
    work.sort_by_key(|(_, context)| context.func.dfg.num_insts());
    let (work, done) = (Mutex::new(work), Mutex::new(Vec::new()));
    let make = || -> Result<(), CompileError> {
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((index, mut context)) = next else { return Ok(()) };
            context
                .compile(isa, &mut ControlPlane::default())
                .map_err(|error| CompileError(error.inner.to_string()))?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, context));
        }
    };
    std::thread::scope(|scope| {
        let makers: Vec<_> = (1..threads).map(|_| scope.spawn(make)).collect();
        let own = make();
        let others = makers.into_iter().map(|maker| match maker.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        others.fold(own, Result::and)
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, context)| context).collect())
}
