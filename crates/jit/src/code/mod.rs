//! From a plan to native code.
#![allow(unsafe_code)]

mod apply;
mod bytes;
mod call;
mod compare;
mod frame;
mod glue;
mod hash;
mod header;
mod held;
mod inst;
mod makers;
mod noted;
mod stage;
mod stores;
mod sums;
mod told;
mod unused;
mod value;
mod ways;
mod words;

pub use call::CallSite;
pub use noted::Recording;
pub use stage::{steady, trusted};
pub use told::{Mark, Told};

use crate::abi::{Helpers, StageFn};
use crate::counters::Place;
use crate::lanes::{self, LanesFn};
use crate::layout::Layout;
use crate::memory::MemoryLayout;
use crate::plan::Plan;
use crate::tally::Places;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use ir::{Inst, Pipeline, TableId, Type};
use makers::{MAKERS, Made, Makers, Waiting};
use parking_lot::Mutex;
use stage::StageCode;
use std::cell::{Cell, RefCell};
use std::sync::mpsc;
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
    /// For each extern object that is a counter counted in place, where its elements are.
    pub counters: Vec<Option<Place>>,
    /// Where a worker counts what it does.
    pub places: Places,
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
    /// The port that stands for the CPU.
    pub cpu_port: u32,
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
