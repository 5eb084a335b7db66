//! Results of instructions: their number and types.

use crate::body::{BinaryOp, Body, ExternArg, Inst};
use crate::entity::{ExternId, Value};
use crate::externs::{ExternFn, ExternKind};
use crate::pipeline::Pipeline;
use crate::types::Type;

/// Constraint on the type of one result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// Exactly this type.
    Is(Type),
    /// Any `bit<W>` or `int<W>`: the type of the program's out argument.
    Numeric,
    /// Any `bit<W>`, `int<W>` or enumeration: a meter's color.
    Color,
}

impl ResultType {
    /// Reports whether the result can have type `ty`.
    pub fn allows(self, ty: Type) -> bool {
        match self {
            ResultType::Is(t) => t == ty,
            ResultType::Numeric => ty.is_numeric(),
            ResultType::Color => ty.is_numeric() || matches!(ty, Type::Enum(_)),
        }
    }
    /// Returns the type, if only one is possible.
    pub fn exact(self) -> Option<Type> {
        match self {
            ResultType::Is(t) => Some(t),
            ResultType::Numeric | ResultType::Color => None,
        }
    }
}

/// Returns the results of an instruction. An operand that does not exist counts as `bit<0>`; the
/// verifier reports it.
pub fn result_types(inst: &Inst, body: &Body, pipeline: &Pipeline) -> Vec<ResultType> {
    let type_of = |v: &Value| body.value_type(*v);
    let single = |t: Type| vec![ResultType::Is(t)];
    match inst {
        Inst::Const(c) => single(c.ty),
        Inst::Load(var) => single(pipeline.vars.get(*var).map_or(Type::Bit(0), |v| v.ty)),
        Inst::Unary(_, a) => single(type_of(a)),
        Inst::Binary(op, a, _) => single(binary_type(*op, type_of(a))),
        Inst::Cast(t, _) | Inst::Lookahead(t) => single(*t),
        Inst::Slice { hi, lo, .. } => single(slice_type(*hi, *lo)),
        Inst::Concat(a, b) => single(concat_type(type_of(a), type_of(b))),
        Inst::Select { then, .. } => single(type_of(then)),
        Inst::IsValid(_) | Inst::InValueSet(..) => single(Type::Bool),
        Inst::PacketLength => single(Type::Bit(32)),
        Inst::Store(..)
        | Inst::SetValid(_)
        | Inst::SetInvalid(_)
        | Inst::CopyHeader { .. }
        | Inst::Extract(_)
        | Inst::ExtractVarbit(..)
        | Inst::Advance(_)
        | Inst::Verify(..)
        | Inst::Emit(_) => Vec::new(),
        Inst::Extern { object, func, args } => extern_result_types(*func, *object, args, body, pipeline),
    }
}

/// Returns the type of `a op b`, where `a` has type `left`.
pub fn binary_type(op: BinaryOp, left: Type) -> Type {
    if op.is_comparison() { Type::Bool } else { left }
}

/// Returns the type of bits `hi..=lo`.
pub fn slice_type(hi: u32, lo: u32) -> Type {
    Type::Bit(hi.saturating_sub(lo).saturating_add(1))
}

/// Returns the type of `high ++ low`.
pub fn concat_type(high: Type, low: Type) -> Type {
    let width = high.width().saturating_add(low.width());
    if high.is_signed() { Type::Int(width) } else { Type::Bit(width) }
}

/// Returns the results of an extern call. A method called without its object has no known results.
/// A result that the program chooses is only required to be numeric or a color.
pub fn extern_result_types(
    func: ExternFn,
    object: Option<ExternId>,
    args: &[ExternArg],
    body: &Body,
    pipeline: &Pipeline,
) -> Vec<ResultType> {
    let extern_kind = object.and_then(|o| pipeline.externs.get(o)).map(|o| &o.kind);
    let arg_type = |index: usize| match args.get(index) {
        Some(ExternArg::Value(v)) => vec![ResultType::Is(body.value_type(*v))],
        _ => vec![ResultType::Numeric],
    };
    match func {
        ExternFn::MeterExecute | ExternFn::DirectMeterExecute => vec![ResultType::Color],
        ExternFn::RegisterRead => match extern_kind {
            Some(ExternKind::Register { elem, .. }) => elem.iter().map(|t| ResultType::Is(*t)).collect(),
            _ => Vec::new(),
        },
        ExternFn::HashGet | ExternFn::ChecksumGet => match extern_kind {
            Some(ExternKind::Hash { output, .. } | ExternKind::Checksum { output, .. }) => {
                vec![ResultType::Is(*output)]
            }
            _ => vec![ResultType::Numeric],
        },
        ExternFn::RandomRead => match extern_kind {
            Some(ExternKind::Random { min, .. }) => vec![ResultType::Is(min.ty)],
            _ => vec![ResultType::Numeric],
        },
        ExternFn::InternetChecksumGet | ExternFn::InternetChecksumGetState | ExternFn::Checksum16Get => {
            vec![ResultType::Is(Type::Bit(16))]
        }
        ExternFn::Random => arg_type(0),
        ExternFn::UpdateChecksum | ExternFn::UpdateChecksumWithPayload => arg_type(2),
        ExternFn::Hash | ExternFn::AllocateFlowId => vec![ResultType::Numeric],
        ExternFn::PortPoolTake => [8, 32, 16].map(|width| ResultType::Is(Type::Bit(width))).into(),
        ExternFn::AddEntry | ExternFn::EntryQuotaTake | ExternFn::IsHostPort | ExternFn::IsNetPort => {
            vec![ResultType::Is(Type::Bool)]
        }
        ExternFn::CounterCount
        | ExternFn::DirectCounterCount
        | ExternFn::RegisterWrite
        | ExternFn::ChecksumClear
        | ExternFn::ChecksumUpdate
        | ExternFn::InternetChecksumClear
        | ExternFn::InternetChecksumAdd
        | ExternFn::InternetChecksumSubtract
        | ExternFn::InternetChecksumSetState
        | ExternFn::DigestPack
        | ExternFn::MarkToDrop
        | ExternFn::VerifyChecksum
        | ExternFn::VerifyChecksumWithPayload
        | ExternFn::Clone
        | ExternFn::Resubmit
        | ExternFn::Recirculate
        | ExternFn::Truncate
        | ExternFn::Assert
        | ExternFn::Assume
        | ExternFn::LogMsg
        | ExternFn::DropPacket
        | ExternFn::SendToPort
        | ExternFn::MirrorPacket
        | ExternFn::PnaRecirculate
        | ExternFn::SetEntryExpireTime
        | ExternFn::RestartExpireTimer => Vec::new(),
    }
}
