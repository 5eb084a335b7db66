//! Where each header's bytes are while a packet is processed.

use crate::unsupported::Unsupported;
use ir::{Entity, HeaderId, Inst, Pipeline, Type};

/// Where a header's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Never anywhere: nothing makes it valid.
    Nowhere,
    /// In the packet, or in the packet's frame when the program made it: an address tells.
    Moves,
    /// Always in the frame: it is never extracted.
    Frame,
    /// In the packet, always so many bytes behind its first.
    Fixed(u32),
}

/// A field in its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldPlace {
    /// First bit, from the header's first.
    pub bit: u32,
    /// Width in bits.
    pub width: u32,
}

/// The headers of a pipeline, by number.
#[derive(Clone, Debug)]
pub struct Headers {
    /// Where their bytes are.
    pub places: Vec<Place>,
    /// Length in bytes without the varbit.
    pub bytes: Vec<u32>,
    /// Greatest length in bytes.
    pub most: Vec<u32>,
    /// The greatest number of bits of the varbit, if there is one: the last field.
    pub varbit: Vec<Option<u32>>,
    /// Each field's place; a varbit's has width 0.
    pub fields: Vec<Vec<FieldPlace>>,
    /// Other members of a header's union.
    pub siblings: Vec<Vec<HeaderId>>,
    /// Whether something copies or sets the header, so that the frame needs room for it.
    pub in_frame: Vec<bool>,
}

impl Headers {
    /// The headers of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Result<Headers, Unsupported> {
        let count = pipeline.headers.len();
        let (mut extracted, mut made) = (vec![false; count], vec![false; count]);
        for control in pipeline.controls.values() {
            for data in control.body.blocks.values().flat_map(|block| &block.insts) {
                match &data.inst {
                    Inst::Extract(h) | Inst::ExtractVarbit(h, _) => extracted[h.index()] = true,
                    Inst::SetValid(h) | Inst::CopyHeader { dst: h, .. } => made[h.index()] = true,
                    _ => {}
                }
            }
        }
        let mut headers = Headers {
            places: Vec::new(),
            bytes: Vec::new(),
            most: Vec::new(),
            varbit: Vec::new(),
            fields: Vec::new(),
            siblings: Vec::new(),
            in_frame: made.clone(),
        };
        for (id, header) in pipeline.headers.iter() {
            let place = match (extracted[id.index()], made[id.index()]) {
                (false, false) => Place::Nowhere,
                (true, _) => Place::Moves,
                (false, true) => Place::Frame,
            };
            headers.places.push(place);
            headers.header(pipeline, header)?;
            let members = header.union.and_then(|u| pipeline.unions.get(u)).map(|u| u.members.clone());
            let siblings = members.unwrap_or_default().into_iter().filter(|m| *m != id).collect();
            headers.siblings.push(siblings);
        }
        Ok(headers)
    }

    fn header(&mut self, pipeline: &Pipeline, header: &ir::Header) -> Result<(), Unsupported> {
        let (mut bit, mut varbit, mut fields) = (0u32, None, Vec::new());
        for var in &header.fields {
            if varbit.is_some() {
                return Err(Unsupported::Varbit);
            }
            let ty = pipeline.vars[*var].ty;
            match ty {
                Type::Varbit(most) => {
                    varbit = Some(most);
                    fields.push(FieldPlace { bit, width: 0 });
                }
                _ => {
                    fields.push(FieldPlace { bit, width: ty.width() });
                    bit = bit.saturating_add(ty.width());
                }
            }
        }
        if !bit.is_multiple_of(8) {
            return Err(Unsupported::HeaderBits);
        }
        if bit > 8 * 1024 {
            return Err(Unsupported::TooLarge);
        }
        self.bytes.push(bit / 8);
        self.most.push(bit / 8 + varbit.unwrap_or(0).div_ceil(8));
        self.varbit.push(varbit);
        self.fields.push(fields);
        Ok(())
    }
}
