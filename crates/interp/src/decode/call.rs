//! Extern calls.

use crate::algorithm;
use crate::decode::decoder::Decoder;
use crate::decode::error::Fault;
use crate::program::{Call, CallArg, Op, Reg};
use ir::{Arg, Entity, ExternFn, ExternId, ExternKind, HashAlgorithm, Pipeline, Value};

/// Emits a call.
pub(super) fn extern_call(
    decoder: &mut Decoder<'_>,
    object: Option<ExternId>,
    func: ExternFn,
    args: &[Arg],
    results: &[Value],
) -> Result<(), Fault> {
    let pipeline = decoder.pipeline;
    let call = checked_call(pipeline, object, func, args, results, &mut |value| decoder.value(value))?;
    let index = decoder.code.calls.len() as u32;
    decoder.code.calls.push(call);
    decoder.emit(Op::Call { index });
    Ok(())
}

/// The call with its values where `place` says they are. What it is called on and with is as the function needs it.
pub(crate) fn checked_call(
    pipeline: &Pipeline,
    object: Option<ExternId>,
    func: ExternFn,
    args: &[Arg],
    results: &[Value],
    place: &mut dyn FnMut(Value) -> Result<Reg, Fault>,
) -> Result<Call, Fault> {
    let kind = match object {
        Some(id) => Some(&pipeline.externs.get(id).ok_or_else(|| format!("{id} does not exist"))?.kind),
        None => None,
    };
    if !object_fits(func, kind) {
        return Err(format!("{} is called on an object of another kind", func.name()));
    }
    let mut algorithm = match kind {
        Some(ExternKind::Hash { algorithm, .. } | ExternKind::Checksum { algorithm, .. }) => Some(*algorithm),
        _ => None,
    };
    let mut decoded = Vec::new();
    for arg in args {
        if let Arg::Str(text) = arg
            && names_algorithm(func)
        {
            let found = algorithm::by_name(text).ok_or_else(|| format!("there is no hash algorithm {text}"))?;
            algorithm = Some(found);
        }
        decoded.push(call_arg(pipeline, arg, place)?);
    }
    check_args(func, &decoded)?;
    let results: Result<Vec<Reg>, Fault> = results.iter().map(|value| place(*value)).collect();
    let results = results?;
    check_results(func, kind, &results)?;
    if names_algorithm(func) && algorithm.is_none() {
        algorithm = Some(HashAlgorithm::Csum16);
    }
    Ok(Call { object, func, args: decoded, results, algorithm })
}

fn names_algorithm(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(func, Hash | VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload)
}

fn object_fits(func: ExternFn, kind: Option<&ExternKind>) -> bool {
    use ExternFn::*;
    match func {
        CounterCount => matches!(kind, Some(ExternKind::Counter { .. })),
        DirectCounterCount => matches!(kind, Some(ExternKind::DirectCounter { .. })),
        MeterExecute => matches!(kind, Some(ExternKind::Meter { .. })),
        DirectMeterExecute => matches!(kind, Some(ExternKind::DirectMeter { .. })),
        RegisterRead | RegisterWrite => matches!(kind, Some(ExternKind::Register { .. })),
        HashGet => matches!(kind, Some(ExternKind::Hash { .. })),
        ChecksumClear | ChecksumUpdate | ChecksumGet => matches!(kind, Some(ExternKind::Checksum { .. })),
        InternetChecksumClear
        | InternetChecksumAdd
        | InternetChecksumSubtract
        | InternetChecksumGet
        | InternetChecksumGetState
        | InternetChecksumSetState => matches!(kind, Some(ExternKind::InternetChecksum)),
        RandomRead => matches!(kind, Some(ExternKind::Random { .. })),
        DigestPack => matches!(kind, Some(ExternKind::Digest { .. })),
        Checksum16Get => true,
        _ => kind.is_none(),
    }
}

/// Checks the shapes of the arguments that the function can't do without: the engine then relies on them.
fn check_args(func: ExternFn, args: &[CallArg]) -> Result<(), Fault> {
    use ExternFn::*;
    let shape: String = args
        .iter()
        .map(|arg| match arg {
            CallArg::Value(_) => 'v',
            CallArg::Values(_) => 's',
            CallArg::Str(_) => '"',
            CallArg::Vars(_) => 'n',
            CallArg::Table(_) => 't',
            CallArg::Action(_) => 'a',
        })
        .collect();
    let wanted: &[&str] = match func {
        CounterCount | MeterExecute => &["v", "vv"],
        DirectCounterCount => &["t", "tv"],
        DirectMeterExecute => &["t", "tv", "tvv"],
        RegisterRead | InternetChecksumSetState | Truncate | SendToPort | IsHostPort | IsNetPort => &["v"],
        RegisterWrite => &["vs", "vv"],
        HashGet => &["s", "v", "vsv", "vvv"],
        ChecksumUpdate | InternetChecksumAdd | InternetChecksumSubtract | Checksum16Get | DigestPack => &["s", "v"],
        ChecksumClear
        | ChecksumGet
        | InternetChecksumClear
        | InternetChecksumGet
        | InternetChecksumGetState
        | RandomRead
        | MarkToDrop
        | DropPacket
        | PnaRecirculate
        | AllocateFlowId => &[""],
        Random | MirrorPacket => &["vv"],
        Hash => &["\"vsv", "\"vvv"],
        VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload => &["vsv\"", "vvv\""],
        Clone => &["\"vn"],
        Resubmit | Recirculate => &["n"],
        Assert | Assume => &["v\"", "v"],
        LogMsg => &["\"", "\"s", "\"v"],
        AddEntry => &["tasv", "tavv"],
        SetEntryExpireTime => &["tv"],
        RestartExpireTimer => &["t"],
    };
    match wanted.contains(&shape.as_str()) {
        true => Ok(()),
        false => Err(format!("{} is called with arguments of shape `{shape}`, not {wanted:?}", func.name())),
    }
}

fn check_results(func: ExternFn, kind: Option<&ExternKind>, results: &[Reg]) -> Result<(), Fault> {
    use ExternFn::*;
    let wanted = match (func, kind) {
        (RegisterRead, Some(ExternKind::Register { elem, .. })) => elem.len(),
        (
            MeterExecute
            | DirectMeterExecute
            | HashGet
            | ChecksumGet
            | InternetChecksumGet
            | InternetChecksumGetState
            | Checksum16Get
            | RandomRead
            | Random
            | Hash
            | UpdateChecksum
            | UpdateChecksumWithPayload
            | AddEntry
            | AllocateFlowId
            | IsHostPort
            | IsNetPort,
            _,
        ) => 1,
        _ => 0,
    };
    match results.len() == wanted {
        true => Ok(()),
        false => Err(format!("{} has {} results, {wanted} wanted", func.name(), results.len())),
    }
}

fn call_arg(
    pipeline: &Pipeline,
    arg: &Arg,
    place: &mut dyn FnMut(Value) -> Result<Reg, Fault>,
) -> Result<CallArg, Fault> {
    Ok(match arg {
        Arg::Value(value) => CallArg::Value(place(*value)?),
        Arg::Values(values) => {
            let regs: Result<Vec<Reg>, Fault> = values.iter().map(|value| place(*value)).collect();
            CallArg::Values(regs?)
        }
        Arg::Str(text) => CallArg::Str(text.clone()),
        Arg::Vars(vars) => match vars.iter().find(|var| pipeline.vars.get(**var).is_none()) {
            Some(var) => return Err(format!("{var} does not exist")),
            None => CallArg::Vars(vars.clone()),
        },
        Arg::Table(table) => match pipeline.tables.get(*table) {
            Some(_) => CallArg::Table(table.index()),
            None => return Err(format!("{table} does not exist")),
        },
        Arg::Action(action) => match pipeline.actions.get(*action) {
            Some(_) => CallArg::Action(*action),
            None => return Err(format!("{action} does not exist")),
        },
    })
}
