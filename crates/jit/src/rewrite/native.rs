//! Compiled functions with safe wrappers.
#![allow(unsafe_code)]

use super::apply::{DROPPED, IN_PLACE, NOT_APPLIED, SEPARATE, emit_apply};
use super::emit::FlowCodeBuilder;
use super::hash::emit_key_hash;
use super::{FlowKeySpec, FlowRowLayout, HEADER_BUFFER_BYTES, KeyHashSpec};
use crate::code::machine::{CompileError, target_isa};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::I64;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use packet::Packet;

/// Memory for a packet's new header.
pub type HeaderBuffer = [u8; HEADER_BUFFER_BYTES];

type HashFn = unsafe extern "C" fn(packet: *const u8, length: u64, port: u64, constants: *const u64) -> u64;
type RowFn = unsafe extern "C" fn(
    packet: *mut u8,
    length: u64,
    port: u64,
    constants: *const u64,
    row: *const u64,
    head: *mut HeaderBuffer,
) -> u64;

/// Memory of a compiled function.
struct NativeFunction {
    module: Option<JITModule>,
    function: *const u8,
    constants: Box<[u64]>,
}

// SAFETY: after construction the code changes only when it is freed, which requires the last owner.
unsafe impl Send for NativeFunction {}
// SAFETY: after construction the code changes only when it is freed; the module is not accessed
// before.
unsafe impl Sync for NativeFunction {}

impl Drop for NativeFunction {
    fn drop(&mut self) {
        if let Some(module) = self.module.take() {
            // SAFETY: only owners of this value call the function.
            unsafe { module.free_memory() };
        }
    }
}

impl std::fmt::Debug for NativeFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeFunction").finish_non_exhaustive()
    }
}

/// Compiles a function with `params` parameters of 64 bits, which are passed to `emit`.
/// Instructions stay in the order of emission, so that few values are live at a time. Returns
/// `None` on a big-endian machine.
/// `TERRACE_REWRITE_DUMP` prints the code.
fn compile(
    params: usize,
    emit: impl FnOnce(&mut FlowCodeBuilder<'_>, &[cl::Value]),
) -> Result<Option<NativeFunction>, CompileError> {
    if cfg!(target_endian = "big") {
        return Ok(None);
    }
    let mut module = JITModule::new(JITBuilder::with_isa(target_isa("none")?, default_libcall_names()));
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
    let mut e = FlowCodeBuilder::new(b, &values);
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
    Ok(Some(NativeFunction { module: Some(module), function, constants }))
}

/// Compiled hash of packets' keys.
#[derive(Debug)]
pub struct HashCode {
    code: NativeFunction,
    function: HashFn,
    depth: usize,
}

impl HashCode {
    /// Compiles the hash of keys. Returns `None` on a big-endian machine.
    ///
    /// # Errors
    /// There is no native code on this machine.
    ///
    /// # Panics
    /// If there are too few secrets.
    pub fn new(key: &FlowKeySpec, hashing: &KeyHashSpec) -> Result<Option<HashCode>, CompileError> {
        let made = compile(4, |e, _| {
            let hash = emit_key_hash(e, key, hashing);
            e.b.ins().return_(&[hash]);
        })?;
        // SAFETY: the function was compiled with this signature.
        let of = |code: &NativeFunction| unsafe { std::mem::transmute::<*const u8, HashFn>(code.function) };
        Ok(made.map(|code| HashCode { function: of(&code), code, depth: key.depth() }))
    }

    /// Hashes the key of a packet; `None` if the packet is too short for it.
    #[inline(always)]
    pub fn hash(&self, packet: &mut Packet) -> Option<u64> {
        let (bytes, length) = packet.as_mut_ptr_len();
        if length < self.depth {
            return None;
        }
        let (port, constants) = (u64::from(packet.ingress_port.0), self.code.constants.as_ptr());
        // SAFETY: the function reads `depth` bytes of the packet, which exist, and the constants
        // that it was compiled with. It writes nothing.
        Some(unsafe { (self.function)(bytes, length as u64, port, constants) })
    }
}

/// Returns bytes of a packet, if it is long enough.
#[inline(always)]
pub fn bytes_at<const N: usize>(packet: &mut Packet, at: usize) -> Option<[u8; N]> {
    let (bytes, length) = packet.as_mut_ptr_len();
    // SAFETY: the packet's bytes are initialised, and these are within its length.
    (at + N <= length).then(|| unsafe { bytes.add(at).cast::<[u8; N]>().read() })
}

/// Encoded result of [`RowCode::apply`]; decoded by [`EncodedOutcome::decode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodedOutcome(u64);

/// Decoded result of [`RowCode::apply`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RewriteOutcome {
    /// The row is for other packets, or the packet is too short for the code; nothing was written.
    NotApplied,
    /// The new header was written in place; the row's number.
    InPlace(u32),
    /// The new header is in separate memory; the row's number.
    Separate(u32),
    /// The packet is dropped; the row's number.
    Dropped(u32),
}

impl EncodedOutcome {
    /// The row was not applied.
    pub const NOT_APPLIED: EncodedOutcome = EncodedOutcome(NOT_APPLIED);

    /// Returns whether the row was not applied.
    #[inline(always)]
    pub fn is_not_applied(self) -> bool {
        self == EncodedOutcome::NOT_APPLIED
    }

    /// Returns whether the new header is in separate memory.
    #[inline(always)]
    pub fn is_separate(self) -> bool {
        self.0 as u32 == SEPARATE as u32
    }

    /// Decodes the result.
    #[inline(always)]
    pub fn decode(self) -> RewriteOutcome {
        let number = (self.0 >> 32) as u32;
        match u64::from(self.0 as u32) {
            IN_PLACE => RewriteOutcome::InPlace(number),
            SEPARATE => RewriteOutcome::Separate(number),
            DROPPED => RewriteOutcome::Dropped(number),
            _ => RewriteOutcome::NotApplied,
        }
    }

    /// Returns the result for a packet that is dropped with this number.
    pub fn dropped(number: u32) -> EncodedOutcome {
        EncodedOutcome(DROPPED | u64::from(number) << 32)
    }
}

/// Compiled application of rows to packets.
#[derive(Debug)]
pub struct RowCode {
    code: NativeFunction,
    function: RowFn,
    depth: usize,
    words: usize,
}

impl RowCode {
    /// Compiles the application of rows with this layout. Returns `None` on a big-endian machine,
    /// or if a write would be out of bounds.
    ///
    /// # Errors
    /// There is no native code on this machine.
    pub fn new(row: &FlowRowLayout) -> Result<Option<RowCode>, CompileError> {
        if !row.is_within() {
            return Ok(None);
        }
        let made = compile(6, |e, params| emit_apply(e, row, params[5]))?;
        // SAFETY: the function was compiled with this signature.
        let of = |code: &NativeFunction| unsafe { std::mem::transmute::<*const u8, RowFn>(code.function) };
        Ok(made.map(|code| RowCode { function: of(&code), code, depth: row.depth(), words: row.words() }))
    }

    /// Returns the minimum length of a packet.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Applies a row to a packet, if the row is for it. Writes `head` if the new header does not
    /// fit in place.
    #[inline(always)]
    pub fn apply(&self, row: &[u64], packet: &mut Packet, head: &mut HeaderBuffer) -> EncodedOutcome {
        let (bytes, length) = packet.as_mut_ptr_len();
        if length < self.depth || row.len() < self.words {
            return EncodedOutcome(NOT_APPLIED);
        }
        let (port, constants) = (u64::from(packet.ingress_port.0), self.code.constants.as_ptr());
        // SAFETY: the function accesses `depth` bytes of the packet and `words` words of the row,
        // which exist, and at most the length of `head`, as `new` has checked.
        EncodedOutcome(unsafe { (self.function)(bytes, length as u64, port, constants, row.as_ptr(), head) })
    }
}
