//! Locations and sizes of headers while a packet is processed.

use crate::fallback_reason::FallbackReason;
use ir::{Entity, HeaderId, Inst, Pipeline, Type};

/// Location of a header's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderLocation {
    /// None: the header is never valid.
    Nowhere,
    /// In the packet, or in the frame if the program created it; its address is a frame slot.
    Dynamic,
    /// Always in the frame, because the header is never extracted.
    Frame,
    /// In the packet, at a fixed offset in bytes.
    Fixed(u32),
}

/// Bits of a field in its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldBits {
    /// First bit, from the start of the header.
    pub bit: u32,
    /// Width in bits.
    pub width: u32,
}

/// Layout of all headers of a pipeline, by header id.
#[derive(Clone, Debug)]
pub struct HeaderLayout {
    /// Location of each header.
    pub locations: Vec<HeaderLocation>,
    /// Length in bytes without the varbit.
    pub bytes: Vec<u32>,
    /// Maximum length in bytes.
    pub max_bytes: Vec<u32>,
    /// Maximum length in bits of the varbit, if there is one: the last field.
    pub varbit: Vec<Option<u32>>,
    /// Bits of each field; a varbit has width 0.
    pub fields: Vec<Vec<FieldBits>>,
    /// Other members of a header's union.
    pub siblings: Vec<Vec<HeaderId>>,
    /// Whether the program copies to the header or sets it valid, so that the frame needs storage
    /// for it.
    pub in_frame: Vec<bool>,
}

impl HeaderLayout {
    /// Computes the layout of a pipeline's headers. A header that is extracted may be anywhere in
    /// the packet; one that the program makes has storage in the frame.
    ///
    /// # Errors
    /// A header that is too long, is not a whole number of bytes, or has fields after a varbit.
    pub fn new(pipeline: &Pipeline) -> Result<HeaderLayout, FallbackReason> {
        let count = pipeline.headers.len();
        let (mut is_extracted, mut is_made) = (vec![false; count], vec![false; count]);
        for control in pipeline.controls.values() {
            for data in control.body.blocks.values().flat_map(|block| &block.insts) {
                match &data.inst {
                    Inst::Extract(h) | Inst::ExtractVarbit(h, _) => is_extracted[h.index()] = true,
                    Inst::SetValid(h) | Inst::CopyHeader { dst: h, .. } => is_made[h.index()] = true,
                    _ => {}
                }
            }
        }
        let mut headers = HeaderLayout {
            locations: Vec::new(),
            bytes: Vec::new(),
            max_bytes: Vec::new(),
            varbit: Vec::new(),
            fields: Vec::new(),
            siblings: Vec::new(),
            in_frame: is_made.clone(),
        };
        for (id, header) in pipeline.headers.iter() {
            let location = match (is_extracted[id.index()], is_made[id.index()]) {
                (false, false) => HeaderLocation::Nowhere,
                (true, _) => HeaderLocation::Dynamic,
                (false, true) => HeaderLocation::Frame,
            };
            headers.locations.push(location);
            headers.header(pipeline, header)?;
            let members = header.union.and_then(|u| pipeline.unions.get(u)).map(|u| u.members.clone());
            let siblings = members.unwrap_or_default().into_iter().filter(|m| *m != id).collect();
            headers.siblings.push(siblings);
        }
        Ok(headers)
    }

    /// Appends the sizes and the field offsets of a header, in bits from its start.
    fn header(&mut self, pipeline: &Pipeline, header: &ir::Header) -> Result<(), FallbackReason> {
        let (mut bit, mut varbit, mut fields) = (0u32, None, Vec::new());
        for var in &header.fields {
            if varbit.is_some() {
                return Err(FallbackReason::Varbit);
            }
            let ty = pipeline.vars[*var].ty;
            match ty {
                Type::Varbit(max_bits) => {
                    varbit = Some(max_bits);
                    fields.push(FieldBits { bit, width: 0 });
                }
                _ => {
                    fields.push(FieldBits { bit, width: ty.width() });
                    bit = bit.saturating_add(ty.width());
                }
            }
        }
        if !bit.is_multiple_of(8) {
            return Err(FallbackReason::HeaderBits);
        }
        if bit > 8 * 1024 {
            return Err(FallbackReason::TooLarge);
        }
        self.bytes.push(bit / 8);
        self.max_bytes.push(bit / 8 + varbit.unwrap_or(0).div_ceil(8));
        self.varbit.push(varbit);
        self.fields.push(fields);
        Ok(())
    }
}
