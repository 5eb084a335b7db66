//! Call sites: where arguments and results lie.

use crate::decode::call::checked_call;
use crate::decode::layout;
use crate::host::ExternHost;
use crate::host::place::{Known, Place};
use crate::program::{Call, CallArg, Reg};
use ir::{Arg, Entity, ExternFn, Inst, TableId, Type, Value, VarId};
use thiserror::Error;

/// A call site of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct SiteId(pub(super) u32);

/// How a call is made.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// Names the site in [`ExternHost::call`].
    pub id: SiteId,
    /// What is called.
    pub func: ExternFn,
    /// For each argument of the instruction its values: of `Arg::Value` one, of `Arg::Values` each leaf, of others none.
    pub args: Vec<Vec<Place>>,
    /// Words of the argument area.
    pub arg_words: usize,
    /// The results, in an area of their own.
    pub results: Vec<Place>,
    /// Words of the result area.
    pub result_words: usize,
    /// The table that the call names: [`crate::host::PacketContext::hit`] is about it.
    pub table: Option<TableId>,
    /// Whether the call reads [`crate::host::PacketContext::payload`].
    pub payload: bool,
    /// The variables that a clone, resubmitted or recirculated packet keeps.
    pub preserved: Vec<VarId>,
}

/// A call that the host can't make: always a bug of what made the instruction.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SiteError {
    /// Not a call.
    #[error("the instruction calls no extern: only `Inst::Extern` has a site")]
    NotACall,
    /// The call doesn't fit its function.
    #[error("the extern call is inconsistent: {0}; run the IR verifier on the pipeline")]
    Inconsistent(String),
    /// More words than an area can have.
    #[error("the arguments and results of {func} take {words} words, more than {most}")]
    TooLarge {
        /// The function.
        func: &'static str,
        /// How many.
        words: usize,
        /// How many there can be.
        most: usize,
    },
}

/// The most words of arguments and results that a call may have: 8 MiB.
const MAX_WORDS: usize = 1 << 20;

impl ExternHost {
    /// Makes a call site for an [`Inst::Extern`] of the host's pipeline. `value_type` gives the types of the values it uses,
    /// `results` those of its results.
    ///
    /// All functions have sites. `add_entry` is carried out by [`ExternHost::add_entry`], all others by [`ExternHost::call`].
    ///
    /// # Errors
    /// If the instruction is no call, or not one that its function allows; nothing has changed then.
    pub fn site(
        &mut self,
        inst: &Inst,
        value_type: &dyn Fn(Value) -> Type,
        results: &[Type],
    ) -> Result<Site, SiteError> {
        let Inst::Extern { object, func, args } = inst else { return Err(SiteError::NotACall) };
        // Values are placed one after the other, each use anew: an argument area is filled in one go.
        let mut next = 0;
        let mut place_next = |ty: Type| {
            let reg = layout::reg(ty, next);
            next = next.saturating_add(reg.words);
            reg
        };
        // The results are named by position: their values' numbers mean nothing here.
        let names: Vec<Value> = (0..results.len()).map(Value::from_index).collect();
        let leaves = |arg: &Arg| match arg {
            Arg::Value(_) => 1,
            Arg::Values(values) => values.len(),
            _ => 0,
        };
        let mut args_left: usize = args.iter().map(leaves).sum();
        let mut arg_words = 0;
        let mut place = |value: Value| match args_left.checked_sub(1) {
            Some(left) => {
                args_left = left;
                let reg = place_next(value_type(value));
                arg_words = (reg.slot + reg.words) as usize;
                Ok(reg)
            }
            None => results.get(value.index()).map(|ty| place_next(*ty)).ok_or_else(|| format!("no type of {value}")),
        };
        let call = checked_call(&self.pipeline, *object, *func, args, &names, &mut place);
        let call = call.map_err(SiteError::Inconsistent)?;
        let words = call.results.iter().map(|reg| (reg.slot + reg.words) as usize).max().unwrap_or(arg_words);
        if words > MAX_WORDS {
            return Err(SiteError::TooLarge { func: func.name(), words, most: MAX_WORDS });
        }
        let id = SiteId(self.sites.len() as u32);
        let site = describe(id, &call, arg_words, words - arg_words);
        if self.frame.slots.len() < words {
            self.frame.slots.resize(words, 0);
        }
        self.sites.push(Known {
            arg_words: site.arg_words,
            result_words: site.result_words,
            table: site.table.map(Entity::index),
            payload: site.payload,
            lane: call.func.keeps_for_packet(),
            asks: asks(call.func),
            varbits: site.args.iter().flatten().filter(|place| place.varbit).copied().collect(),
            call,
        });
        Ok(site)
    }
}

fn describe(id: SiteId, call: &Call, arg_words: usize, result_words: usize) -> Site {
    use ExternFn::{UpdateChecksumWithPayload, VerifyChecksumWithPayload};
    let places = |arg: &CallArg| match arg {
        CallArg::Value(reg) => vec![Place::new(*reg)],
        CallArg::Values(regs) => regs.iter().map(|reg| Place::new(*reg)).collect(),
        _ => Vec::new(),
    };
    let result = |reg: &Reg| {
        let place = Place::new(*reg);
        Place { word: place.word - arg_words, ..place }
    };
    let table = call.args.iter().find_map(|arg| match arg {
        CallArg::Table(table) => Some(TableId::from_index(*table)),
        _ => None,
    });
    let preserved = call.args.iter().find_map(|arg| match arg {
        CallArg::Vars(vars) => Some(vars.clone()),
        _ => None,
    });
    Site {
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

/// Whether a call of the function may ask something of the architecture.
fn asks(func: ExternFn) -> bool {
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
