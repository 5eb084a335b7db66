//! Decodes a pipeline into a [`DecodedProgram`].

mod body;
pub(crate) mod call;
mod decoder;
mod error;
mod inst;
pub(crate) mod layout;
mod uses;

pub use decoder::CodeGranularity;
pub use error::LoadError;

use crate::program::{BlockCode, DecodedProgram, ErrorIndices, ROLES};
use crate::well_known::WellKnown;
use body::decode_body;
use ir::{Entity, Pipeline, VarId, VarKind};
use layout::RegisterLayout;

/// Maximum number of words of the variables and constants of a program: 64 MiB for each packet in
/// flight.
const MAX_SLOTS: u64 = 1 << 23;

/// Decodes a pipeline. `form` is the granularity of the code.
///
/// Errors: the pipeline is inconsistent or larger than a limit of the engine.
pub fn decode(pipeline: &Pipeline, form: CodeGranularity) -> Result<DecodedProgram, LoadError> {
    // An upper bound, before anything is allocated: one word for a remainder, one for a varbit's
    // length.
    let word_count: u64 = pipeline.vars.values().map(|v| u64::from(v.ty.width() / 64 + 2)).sum();
    if word_count > MAX_SLOTS {
        return Err(LoadError::TooLarge { slots: word_count, most: MAX_SLOTS });
    }
    let mut layout = RegisterLayout::new(pipeline);
    let mut codes = Vec::new();
    for control in pipeline.controls.values() {
        let code = decode_body(pipeline, &mut layout, control, form)
            .map_err(|what| LoadError::Inconsistent { place: control.name.clone(), what })?;
        codes.push(code);
    }
    let error_index = |name: &str| pipeline.errors.iter().position(|e| e == name).unwrap_or(0) as u32;
    let metadata = metadata(pipeline).map(|id| layout.var(id)).collect();
    let args_len = |listed: &ir::ActionRef| match pipeline.actions.get(listed.action) {
        Some(_) => entries::action_layout(pipeline, listed.action).last().map_or(0, |f| (f.offset + f.words) as u32),
        None => 0,
    };
    let mut program = DecodedProgram {
        initial: Vec::new(),
        var_words: layout.var_words(),
        non_header_words: layout.non_header_words(),
        var_regs: pipeline.vars.keys().map(|id| layout.var(id)).collect(),
        var_names: pipeline.vars.values().map(|v| v.name.clone()).collect(),
        word_vars: Vec::new(),
        metadata,
        headers: layout.headers(pipeline)?,
        roles: roles(&codes),
        codes,
        well_known: WellKnown::new(pipeline, |id| layout.var(id)),
        color_encodings: color_encodings(pipeline),
        errors: ErrorIndices {
            packet_too_short: error_index("PacketTooShort"),
            header_too_short: error_index("HeaderTooShort"),
            parser_timeout: error_index("ParserTimeout"),
            parser_invalid_argument: error_index("ParserInvalidArgument"),
        },
        externs: pipeline.externs.len(),
        tables: pipeline.tables.len(),
        arm_words: pipeline.tables.values().map(|t| t.actions.iter().map(args_len).collect()).collect(),
    };
    program.initial = layout.initial();
    program.word_vars = vec![0; program.var_words.1 as usize];
    for (index, reg) in program.var_regs.iter().enumerate() {
        let first_word = (reg.first_word - program.var_words.0) as usize;
        program.word_vars[first_word..first_word + reg.words as usize].fill(index as u32);
    }
    if program.initial.len() as u64 > 2 * MAX_SLOTS {
        return Err(LoadError::TooLarge { slots: program.initial.len() as u64, most: 2 * MAX_SLOTS });
    }
    debug_assert!(pipeline.vars.keys().all(|id| id.index() < program.var_regs.len()));
    Ok(program)
}

/// Returns the variables that a clone resets: all except header fields and next indices.
pub(crate) fn metadata(pipeline: &Pipeline) -> impl Iterator<Item = VarId> {
    let kept = |(_, var): &(VarId, &ir::Var)| !matches!(var.kind, VarKind::Field(..) | VarKind::NextIndex(_));
    pipeline.vars.iter().filter(kept).map(|(id, _)| id)
}

/// Returns the first block of each role.
fn roles(codes: &[BlockCode]) -> [Option<usize>; ROLES] {
    let mut roles = [None; ROLES];
    for (index, code) in codes.iter().enumerate() {
        roles[code.kind as usize].get_or_insert(index);
    }
    roles
}

/// Returns the program's encodings of green, yellow and red. v1model fixes numbers for the colors,
/// PNA declares an enumeration.
pub(crate) fn color_encodings(pipeline: &Pipeline) -> [u64; 3] {
    if pipeline.arch == ir::Arch::V1Model {
        return [0, 1, 2];
    }
    let declared = pipeline.enums.values().find(|e| e.name == "PNA_MeterColor_t");
    let index = |name: &str, fallback: u64| {
        let position = declared.and_then(|e| e.members.iter().position(|m| m == name));
        position.map_or(fallback, |p| p as u64)
    };
    [index("GREEN", 1), index("YELLOW", 2), index("RED", 0)]
}

/// Returns the expire time profile of entries whose own has no time, if the table declares one.
pub(crate) fn default_expire_profile(table: &ir::Table) -> Option<u8> {
    let property = "default_idle_timeout_for_data_plane_added_entries";
    let (_, text) = table.properties.iter().find(|(name, _)| name == property)?;
    let digits = text.rsplit(['w', ' ', ')']).find(|part| !part.is_empty())?;
    digits.trim().parse().ok()
}
