//! Values, with reads and writes of their parts.

use super::tree::{BYTES, FIELDS, STACK, STATE, Ty};

/// A value of any type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number of up to eight bits.
    Bits(u8),
    /// A boolean.
    Bool(bool),
    /// Fields of a struct, in order.
    Struct(Vec<u8>),
    /// Field of a header, if it is valid.
    Header(Option<u8>),
    /// Index and field of the valid member of a union.
    Union(Option<(usize, u8)>),
    /// Elements of a stack.
    Stack([Option<u8>; STACK]),
}

/// Selection of a part of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// A field of a struct or union, or the field of a header.
    Field(usize),
    /// An element of a stack.
    Element(usize),
    /// Four bits from this bit up.
    Nibble(u8),
}

impl Value {
    /// Returns the initial value of a variable of the type: zero, or invalid.
    pub fn initial(ty: Ty) -> Value {
        match ty {
            Ty::Bits | Ty::Nibble => Value::Bits(0),
            Ty::Bool => Value::Bool(false),
            Ty::Header => Value::Header(None),
            Ty::Union => Value::Union(None),
            Ty::Struct => Value::Struct(vec![0; FIELDS]),
            Ty::Stack => Value::Stack([None; STACK]),
        }
    }

    /// Returns the number.
    ///
    /// # Panics
    /// If the value is not a number, due to a bug of the generator or the evaluator.
    pub fn bits(&self) -> u8 {
        let Value::Bits(bits) = self else { panic!("{self:?} is no number") };
        *bits
    }

    /// Returns the boolean.
    ///
    /// # Panics
    /// If the value is not a boolean.
    pub fn truth(&self) -> bool {
        let Value::Bool(truth) = self else { panic!("{self:?} is no truth") };
        *truth
    }

    /// Returns the header's field, if it is valid.
    ///
    /// # Panics
    /// If the value is not a header.
    pub fn header(&self) -> Option<u8> {
        let Value::Header(header) = self else { panic!("{self:?} is no header") };
        *header
    }

    /// Returns whether a header, or a member of a union, is valid.
    pub fn is_valid(&self) -> bool {
        matches!(self, Value::Header(Some(_)) | Value::Union(Some(_)))
    }

    /// Returns a part. Fields of invalid headers read as 0.
    ///
    /// # Panics
    /// If the part does not exist.
    pub fn get(&self, path: &[Select]) -> Value {
        let Some((first, rest)) = path.split_first() else { return self.clone() };
        let part = match (self, *first) {
            (Value::Struct(fields), Select::Field(n)) => Value::Bits(fields[n]),
            (Value::Header(header), Select::Field(0)) => Value::Bits(header.unwrap_or(0)),
            (Value::Union(valid), Select::Field(n)) => {
                Value::Header(valid.filter(|(member, _)| *member == n).map(|(_, field)| field))
            }
            (Value::Stack(elements), Select::Element(n)) => Value::Header(elements[n]),
            (Value::Bits(bits), Select::Nibble(lo)) => Value::Bits(bits >> lo & 15),
            _ => panic!("{self:?} has no {first:?}"),
        };
        part.get(rest)
    }

    /// Writes a part. `union_alone` selects a wrong reading: a member that becomes invalid leaves
    /// the others unchanged.
    ///
    /// # Panics
    /// If the part does not exist.
    pub fn set(&mut self, path: &[Select], new: Value, union_alone: bool) {
        let Some((first, rest)) = path.split_first() else {
            *self = new;
            return;
        };
        // "Copied recursively": the changed part replaces the old one.
        let mut part = self.get(&path[..1]);
        let was_valid = part.is_valid();
        part.set(rest, new, union_alone);
        match (self, *first, part) {
            (Value::Struct(fields), Select::Field(n), part) => fields[n] = part.bits(),
            // "Writing to a field of an invalid header" has no effect.
            (Value::Header(header), Select::Field(0), part) => *header = header.map(|_| part.bits()),
            (Value::Stack(elements), Select::Element(n), part) => elements[n] = part.header(),
            (Value::Bits(bits), Select::Nibble(lo), part) => *bits = *bits & !(15 << lo) | part.bits() << lo,
            (Value::Union(valid), Select::Field(n), part) => match part.header() {
                // "If e is valid, then it is equivalent to u.hi.setValid(); u.hi = e", which makes
                // the others invalid.
                Some(field) => *valid = Some((n, field)),
                // A write to a field of an invalid member.
                None if !rest.is_empty() => {}
                None if union_alone && !was_valid => {}
                // "If e is invalid, then it is equivalent to u.hi.setInvalid()": the validity bit
                // of any valid member becomes false.
                None => *valid = None,
            },
            (value, first, _) => panic!("{value:?} has no {first:?}"),
        }
    }
}

/// Returns the initial state for a packet's bytes. [`super::print`] prints an equivalent parser.
pub fn state(bytes: &[u8; BYTES]) -> Vec<Value> {
    let b = |n: usize| bytes[n];
    let flag = |n: usize| bytes[9] >> n & 1 == 1;
    let value = |(name, _): &(&str, Ty)| match *name {
        "m.x0" => Value::Bits(b(0)),
        "m.x1" => Value::Bits(b(1)),
        "m.x2" => Value::Bits(b(2)),
        "m.x3" => Value::Bits(b(3)),
        "m.p0" => Value::Struct(vec![b(4), b(5), b(6)]),
        "m.p1" => Value::Struct(vec![b(6), b(7), b(8)]),
        "hdr.s" => Value::Stack([Some(b(3)), Some(b(4)), flag(0).then_some(b(5)), None]),
        "hdr.k0" => Value::Header(Some(b(6))),
        "hdr.k1" => Value::Header(flag(1).then_some(b(7))),
        "hdr.u0" => Value::Union(flag(2).then_some((0, b(8)))),
        "hdr.u1" => Value::Union(if flag(3) { Some((1, b(0))) } else { Some((2, b(1))) }),
        other => panic!("no value for {other}"),
    };
    STATE.iter().map(value).collect()
}

/// Returns the sent bytes: each state variable, flattened, then the register's cells.
pub fn sent_bytes(state: &[Value], cells: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut append_header = |header: Option<u8>| out.extend([u8::from(header.is_some()), header.unwrap_or(0)]);
    for value in state {
        match value {
            Value::Bits(bits) => append_header(Some(*bits)),
            Value::Struct(fields) => fields.iter().for_each(|field| append_header(Some(*field))),
            Value::Header(value) => append_header(*value),
            Value::Stack(elements) => elements.iter().for_each(|element| append_header(*element)),
            Value::Union(valid) => {
                for index in 0..FIELDS {
                    append_header(valid.filter(|(member, _)| *member == index).map(|(_, field)| field));
                }
            }
            Value::Bool(_) => panic!("no state is a truth"),
        }
    }
    cells.iter().for_each(|cell| append_header(Some(*cell)));
    out
}
