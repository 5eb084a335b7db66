//! Decodes extern calls and checks their arguments.

use crate::algorithm;
use crate::decode::decoder::BodyDecoder;
use crate::decode::error::DecodeFault;
use crate::program::{CallArg, DecodedCall, Op, Reg};
use ir::{Entity, ExternArg, ExternFn, ExternId, ExternKind, HashAlgorithm, Pipeline, Value};

/// Decodes an extern call, adds it to the calls of the block, and emits the instruction that refers
/// to it.
pub(super) fn extern_call(
    decoder: &mut BodyDecoder<'_>,
    object: Option<ExternId>,
    func: ExternFn,
    args: &[ExternArg],
    results: &[Value],
) -> Result<(), DecodeFault> {
    let pipeline = decoder.pipeline;
    let call = checked_call(pipeline, object, func, args, results, &mut |value| decoder.value(value))?;
    let index = decoder.code.calls.len() as u32;
    decoder.code.calls.push(call);
    decoder.emit(Op::Call { index });
    Ok(())
}

/// Decodes a call; `reg_of` maps values to registers.
///
/// Errors: the object, the arguments or the results do not fit the function.
pub(crate) fn checked_call(
    pipeline: &Pipeline,
    object: Option<ExternId>,
    func: ExternFn,
    args: &[ExternArg],
    results: &[Value],
    reg_of: &mut dyn FnMut(Value) -> Result<Reg, DecodeFault>,
) -> Result<DecodedCall, DecodeFault> {
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
        if let ExternArg::Str(text) = arg
            && names_algorithm(func)
        {
            let named = algorithm::by_name(text).ok_or_else(|| format!("there is no hash algorithm {text}"))?;
            algorithm = Some(named);
        }
        decoded.push(call_arg(pipeline, arg, reg_of)?);
    }
    check_args(func, &decoded)?;
    let results: Result<Vec<Reg>, DecodeFault> = results.iter().map(|value| reg_of(*value)).collect();
    let results = results?;
    check_results(func, kind, &results)?;
    if names_algorithm(func) && algorithm.is_none() {
        algorithm = Some(HashAlgorithm::Csum16);
    }
    Ok(DecodedCall { object, func, args: decoded, results, algorithm })
}

fn names_algorithm(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(func, Hash | VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload)
}

/// Returns whether a function is called on an object of its kind (`kind`), or on none if it is not
/// a method.
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
        PortPoolTake => matches!(kind, Some(ExternKind::PortPool { .. })),
        EntryQuotaTake => matches!(kind, Some(ExternKind::EntryQuota { .. })),
        DigestPack => matches!(kind, Some(ExternKind::Digest { .. })),
        Checksum16Get => true,
        _ => kind.is_none(),
    }
}

/// Checks number and form of the arguments that the function requires, because the engine relies on
/// them. A signature has a letter for each argument: `v` a value, `s` a list of values, `n`
/// variables, `t` a table, `a` an action, `"` a string.
fn check_args(func: ExternFn, args: &[CallArg]) -> Result<(), DecodeFault> {
    use ExternFn::*;
    let signature: String = args
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
    let allowed: &[&str] = match func {
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
        AddEntry => {
            &["tasv", "tavv", "tasvsas", "tasvsav", "tasvvas", "tasvvav", "tavvsas", "tavvsav", "tavvvas", "tavvvav"]
        }
        PortPoolTake => &["vvvvvv"],
        EntryQuotaTake => &["vv"],
        SetEntryExpireTime => &["tv"],
        RestartExpireTimer => &["t"],
    };
    match allowed.contains(&signature.as_str()) {
        true => Ok(()),
        false => Err(format!("{} is called with arguments of shape `{signature}`, not {allowed:?}", func.name())),
    }
}

/// Checks that the call has as many results as the function returns values.
fn check_results(func: ExternFn, kind: Option<&ExternKind>, results: &[Reg]) -> Result<(), DecodeFault> {
    use ExternFn::*;
    let expected = match (func, kind) {
        (RegisterRead, Some(ExternKind::Register { elem, .. })) => elem.len(),
        (PortPoolTake, _) => 3,
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
            | EntryQuotaTake
            | AllocateFlowId
            | IsHostPort
            | IsNetPort,
            _,
        ) => 1,
        _ => 0,
    };
    match results.len() == expected {
        true => Ok(()),
        false => Err(format!("{} has {} results, {expected} wanted", func.name(), results.len())),
    }
}

/// Decodes one argument; `reg_of` maps values to registers. An entity that the pipeline does not
/// have is an error.
fn call_arg(
    pipeline: &Pipeline,
    arg: &ExternArg,
    reg_of: &mut dyn FnMut(Value) -> Result<Reg, DecodeFault>,
) -> Result<CallArg, DecodeFault> {
    Ok(match arg {
        ExternArg::Value(value) => CallArg::Value(reg_of(*value)?),
        ExternArg::Values(values) => {
            let regs: Result<Vec<Reg>, DecodeFault> = values.iter().map(|value| reg_of(*value)).collect();
            CallArg::Values(regs?)
        }
        ExternArg::Str(text) => CallArg::Str(text.clone()),
        ExternArg::Vars(vars) => match vars.iter().find(|var| pipeline.vars.get(**var).is_none()) {
            Some(var) => return Err(format!("{var} does not exist")),
            None => CallArg::Vars(vars.clone()),
        },
        ExternArg::Table(table) => match pipeline.tables.get(*table) {
            Some(_) => CallArg::Table(table.index()),
            None => return Err(format!("{table} does not exist")),
        },
        ExternArg::Action(action) => match pipeline.actions.get(*action) {
            Some(_) => CallArg::Action(*action),
            None => return Err(format!("{action} does not exist")),
        },
    })
}
