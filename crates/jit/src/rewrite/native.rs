//! The functions, and safe ways to call them.
#![allow(unsafe_code)]

use super::apply::{APART, DROPPED, OTHERS, THERE, apply};
use super::emit::Emit;
use super::hash::hash;
use super::{HEAD, Hashing, Key, Row};
use crate::code::machine::{CompileError, isa};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use packet::Packet;

/// A packet's new beginning.
pub type Head = [u8; HEAD];

type HashFn = unsafe extern "C" fn(packet: *const u8, length: u64, port: u64, constants: *const u64) -> u64;
type RowFn = unsafe extern "C" fn(
    packet: *mut u8,
    length: u64,
    port: u64,
    constants: *const u64,
    row: *const u64,
    head: *mut Head,
) -> u64;

/// The memory of a function.
struct Code {
    module: Option<JITModule>,
    function: *const u8,
    constants: Box<[u64]>,
}

// SAFETY: after it is made the code only changes when it is freed, which takes the last owner.
unsafe impl Send for Code {}
// SAFETY: as above; the module itself is not touched before.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: the function is only called by whoever owns this value.
            unsafe { module.free_memory() };
        }
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").finish_non_exhaustive()
    }
}

/// Makes a function of so many parameters of 64 bits, which the last of `emit`'s are. Instructions stay in the order in which they are laid down, so that few values are under
/// way at a time. `None` where the least significant byte does not come first.
fn compile(params: usize, emit: impl FnOnce(&mut Emit<'_>, &[cl::Value])) -> Result<Option<Code>, CompileError> {
    if cfg!(target_endian = "big") {
        return Ok(None);
    }
    let mut module = JITModule::new(JITBuilder::with_isa(isa("none")?, default_libcall_names()));
    let mut context = module.make_context();
    let mut builder_context = FunctionBuilderContext::new();
    let mut signature = module.make_signature();
    signature.params.extend(vec![cl::AbiParam::new(I64); params]);
    signature.returns.push(cl::AbiParam::new(I64));
    let id = module.declare_function("rewrite", Linkage::Local, &signature)?;
    context.func.signature = signature;
    let mut b = FunctionBuilder::new(&mut context.func, &mut builder_context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let values = b.block_params(block).to_vec();
    let mut e = Emit::new(b, &values);
    emit(&mut e, &values);
    let constants = e.table.into();
    e.b.finalize(module.target_config());
    let dump = std::env::var_os("TERRACE_REWRITE_DUMP").is_some();
    context.set_disasm(dump);
    module.define_function(id, &mut context)?;
    if let Some(text) = context.compiled_code().and_then(|code| code.vcode.as_ref()).filter(|_| dump) {
        eprintln!("{text}");
    }
    module.clear_context(&mut context);
    module.finalize_definitions()?;
    let function = module.get_finalized_function(id);
    Ok(Some(Code { module: Some(module), function, constants }))
}

/// From packets to hashes of their keys.
#[derive(Debug)]
pub struct HashCode {
    code: Code,
    function: HashFn,
    depth: usize,
}

impl HashCode {
    /// For keys of that form. `None`: this machine has another order of bytes.
    ///
    /// # Errors
    /// There is no native code on this machine.
    ///
    /// # Panics
    /// If there are too few secrets.
    pub fn new(key: &Key, hashing: &Hashing) -> Result<Option<HashCode>, CompileError> {
        let made = compile(4, |e, _| {
            let hash = hash(e, key, hashing);
            e.b.ins().return_(&[hash]);
        })?;
        // SAFETY: the function was made with this signature.
        let of = |code: &Code| unsafe { std::mem::transmute::<*const u8, HashFn>(code.function) };
        Ok(made.map(|code| HashCode { function: of(&code), code, depth: key.depth() }))
    }

    /// `None`: the packet is too short for it.
    #[inline(always)]
    pub fn hash(&self, packet: &mut Packet) -> Option<u64> {
        let (bytes, length) = packet.place();
        if length < self.depth {
            return None;
        }
        let (port, constants) = (u64::from(packet.ingress_port.0), self.code.constants.as_ptr());
        // SAFETY: of the packet `depth` bytes are read, which it has, of the constants those that the code was made with. Nothing is written.
        Some(unsafe { (self.function)(bytes, length as u64, port, constants) })
    }
}

/// Bytes of a packet, if it is as long as that.
#[inline(always)]
pub fn bytes_at<const N: usize>(packet: &mut Packet, at: usize) -> Option<[u8; N]> {
    let (bytes, length) = packet.place();
    // SAFETY: the packet's bytes are initialised, and these are among them.
    (at + N <= length).then(|| unsafe { bytes.add(at).cast::<[u8; N]>().read() })
}

/// What became of a packet: [`Done::told`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done(u64);

/// The same in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// The row is not for it, and nothing was written; or the packet is too short for the code, which says nothing then.
    Others,
    /// It has its new beginning, and the row's number is this.
    There(u32),
    /// Its new beginning lies apart.
    Apart(u32),
    /// It is dropped.
    Dropped(u32),
}

impl Done {
    /// Nothing.
    pub const NOTHING: Done = Done(OTHERS);

    /// Whether nothing was done.
    #[inline(always)]
    pub fn is_nothing(self) -> bool {
        self == Done::NOTHING
    }

    /// Whether a new beginning lies apart.
    #[inline(always)]
    pub fn is_apart(self) -> bool {
        self.0 as u32 == APART as u32
    }

    /// In words.
    #[inline(always)]
    pub fn told(self) -> Told {
        let number = (self.0 >> 32) as u32;
        match u64::from(self.0 as u32) {
            THERE => Told::There(number),
            APART => Told::Apart(number),
            DROPPED => Told::Dropped(number),
            _ => Told::Others,
        }
    }

    /// It is dropped, for that reason.
    pub fn dropped(number: u32) -> Done {
        Done(DROPPED | u64::from(number) << 32)
    }
}

/// Applies rows to packets.
#[derive(Debug)]
pub struct RowCode {
    code: Code,
    function: RowFn,
    depth: usize,
    words: usize,
}

impl RowCode {
    /// For rows of that form. `None`: this machine has another order of bytes, or something would be written where there is no room.
    ///
    /// # Errors
    /// There is no native code on this machine.
    pub fn new(row: &Row) -> Result<Option<RowCode>, CompileError> {
        if !row.is_within() {
            return Ok(None);
        }
        let made = compile(6, |e, params| apply(e, row, params[5]))?;
        // SAFETY: the function was made with this signature.
        let of = |code: &Code| unsafe { std::mem::transmute::<*const u8, RowFn>(code.function) };
        Ok(made.map(|code| RowCode { function: of(&code), code, depth: row.depth(), words: row.words() }))
    }

    /// How long a packet must be.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Writes a packet's new beginning, if the row is for it. `head` is written to if that lies apart.
    #[inline(always)]
    pub fn apply(&self, row: &[u64], packet: &mut Packet, head: &mut Head) -> Done {
        let (bytes, length) = packet.place();
        if length < self.depth || row.len() < self.words {
            return Done(OTHERS);
        }
        let (port, constants) = (u64::from(packet.ingress_port.0), self.code.constants.as_ptr());
        // SAFETY: of the packet `depth` bytes are read and written, of the row `words` are read, which they have; of the head, at most as much as it is long is
        // written, as `new` has seen.
        Done(unsafe { (self.function)(bytes, length as u64, port, constants, row.as_ptr(), head) })
    }
}
