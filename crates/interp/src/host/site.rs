//! Call sites: layout of arguments and results.

use crate::decode::call::checked_call;
use crate::decode::layout;
use crate::host::ExternHost;
use crate::host::value_slot::{CallSiteRecord, ValueSlot};
use crate::program::{CallArg, DecodedCall, Reg};
use ir::{Entity, ExternArg, ExternFn, Inst, TableId, Type, Value, VarId};
use thiserror::Error;

/// Id of a call site in its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct SiteId(pub(super) u32);

/// Call site: layout and properties of an extern call.
#[derive(Clone, PartialEq, Debug)]
pub struct ExternCallSite {
    /// Id for [`ExternHost::call`].
    pub id: SiteId,
    /// Called function.
    pub func: ExternFn,
    /// For each argument of the instruction the slots of its values: one for `Arg::Value`, one for
    /// each leaf of `Arg::Values`, none for others.
    pub args: Vec<Vec<ValueSlot>>,
    /// Words of the argument area.
    pub arg_words: usize,
    /// Slots of the results, in an area of their own.
    pub results: Vec<ValueSlot>,
    /// Words of the result area.
    pub result_words: usize,
    /// Table argument of the call, which [`crate::host::PacketContext::hit`] refers to.
    pub table: Option<TableId>,
    /// Whether the call reads [`crate::host::PacketContext::payload`].
    pub payload: bool,
    /// Variables that a cloned, resubmitted or recirculated packet preserves.
    pub preserved: Vec<VarId>,
}

/// Call that the host cannot make, always a bug of the compiler.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SiteError {
    /// The instruction is not a call.
    #[error("the instruction calls no extern: only `Inst::Extern` has a site")]
    NotACall,
    /// The call does not fit its function.
    #[error("the extern call is inconsistent: {0}; run the IR verifier on the pipeline")]
    Inconsistent(String),
    /// The call needs more words than an area can have.
    #[error("the arguments and results of {func} take {words} words, more than {most}")]
    TooLarge {
        /// The function.
        func: &'static str,
        /// Words that the call needs.
        words: usize,
        /// Maximum number of words.
        most: usize,
    },
}

/// Maximum number of words of arguments and results of a call: 8 MiB.
const MAX_WORDS: usize = 1 << 20;

impl ExternHost {
    /// Creates a call site for an [`Inst::Extern`] of the host's pipeline. `value_type` returns the
    /// types of the values it uses, `results` has those of its results.
    ///
    /// All functions have sites. The engine executes `add_entry` in its tables, and
    /// [`ExternHost::call`] all others.
    ///
    /// # Errors
    /// The instruction is not a call, or not one that its function allows. The host is then
    /// unchanged.
    pub fn site(
        &mut self,
        inst: &Inst,
        value_type: &dyn Fn(Value) -> Type,
        results: &[Type],
    ) -> Result<ExternCallSite, SiteError> {
        let Inst::Extern { object, func, args } = inst else { return Err(SiteError::NotACall) };
        // Each use of a value has its own slot, one after the other, because an argument area is
        // filled in one go.
        let mut next = 0;
        let mut place_next = |ty: Type| {
            let reg = layout::register_at(ty, next);
            next = next.saturating_add(reg.words);
            reg
        };
        // Results are named by position, because value numbers have no meaning here.
        let names: Vec<Value> = (0..results.len()).map(Value::from_index).collect();
        let leaves = |arg: &ExternArg| match arg {
            ExternArg::Value(_) => 1,
            ExternArg::Values(values) => values.len(),
            _ => 0,
        };
        let mut args_left: usize = args.iter().map(leaves).sum();
        let mut arg_words = 0;
        let mut place = |value: Value| match args_left.checked_sub(1) {
            Some(left) => {
                args_left = left;
                let reg = place_next(value_type(value));
                arg_words = (reg.first_word + reg.words) as usize;
                Ok(reg)
            }
            None => results.get(value.index()).map(|ty| place_next(*ty)).ok_or_else(|| format!("no type of {value}")),
        };
        let call = checked_call(&self.pipeline, *object, *func, args, &names, &mut place);
        let call = call.map_err(SiteError::Inconsistent)?;
        let words = call.results.iter().map(|reg| (reg.first_word + reg.words) as usize).max().unwrap_or(arg_words);
        if words > MAX_WORDS {
            return Err(SiteError::TooLarge { func: func.name(), words, most: MAX_WORDS });
        }
        let id = SiteId(self.sites.len() as u32);
        let site = describe_site(id, &call, arg_words, words - arg_words);
        if self.frame.reg_words.len() < words {
            self.frame.reg_words.resize(words, 0);
        }
        self.sites.push(CallSiteRecord {
            arg_words: site.arg_words,
            result_words: site.result_words,
            table: site.table.map(Entity::index),
            payload: site.payload,
            uses_checksum_state: call.func.is_packet_scoped(),
            has_arch_effect: has_arch_effect(call.func),
            varbits: site.args.iter().flatten().filter(|place| place.is_varbit).copied().collect(),
            call,
        });
        Ok(site)
    }
}

fn describe_site(id: SiteId, call: &DecodedCall, arg_words: usize, result_words: usize) -> ExternCallSite {
    use ExternFn::{UpdateChecksumWithPayload, VerifyChecksumWithPayload};
    let places = |arg: &CallArg| match arg {
        CallArg::Value(reg) => vec![ValueSlot::new(*reg)],
        CallArg::Values(regs) => regs.iter().map(|reg| ValueSlot::new(*reg)).collect(),
        _ => Vec::new(),
    };
    let result = |reg: &Reg| {
        let place = ValueSlot::new(*reg);
        ValueSlot { first_word: place.first_word - arg_words, ..place }
    };
    let table = call.args.iter().find_map(|arg| match arg {
        CallArg::Table(table) => Some(TableId::from_index(*table)),
        _ => None,
    });
    let preserved = call.args.iter().find_map(|arg| match arg {
        CallArg::Vars(vars) => Some(vars.clone()),
        _ => None,
    });
    ExternCallSite {
        id,
        func: call.func,
        args: call.args.iter().map(places).collect(),
        arg_words,
        results: call.results.iter().map(result).collect(),
        result_words,
        table,
        payload: matches!(call.func, UpdateChecksumWithPayload | VerifyChecksumWithPayload),
        preserved: preserved.unwrap_or_default(),
    }
}

/// Returns whether a call of the function can have an effect on the architecture.
fn has_arch_effect(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(
        func,
        VerifyChecksum
            | VerifyChecksumWithPayload
            | MarkToDrop
            | Clone
            | Resubmit
            | Recirculate
            | Truncate
            | Assert
            | Assume
            | DropPacket
            | SendToPort
            | MirrorPacket
            | PnaRecirculate
            | AddEntry
    )
}
