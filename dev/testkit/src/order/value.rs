//! Values, and what reading and writing parts of them means.

use super::tree::{BYTES, FIELDS, STACK, STATE, Ty};

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Of up to eight bits.
    Bits(u8),
    /// A truth.
    Bool(bool),
    /// Of a struct, in order.
    Struct(Vec<u8>),
    /// Of a header: its field, if it is valid.
    Header(Option<u8>),
    /// Of a union: which member is valid, and its field.
    Union(Option<(usize, u8)>),
    /// Of a stack.
    Stack([Option<u8>; STACK]),
}

/// From a value to a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// Of a struct or union; the field of a header.
    Field(usize),
    /// Of a stack.
    Element(usize),
    /// Four bits from this one up.
    Nibble(u8),
}

impl Value {
    /// What a variable of the type has before something is assigned: zero, or invalid.
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

    /// The number.
    ///
    /// # Panics
    /// It is no number: the maker or the evaluator is wrong.
    pub fn bits(&self) -> u8 {
        let Value::Bits(bits) = self else { panic!("{self:?} is no number") };
        *bits
    }

    /// The truth.
    ///
    /// # Panics
    /// It is none.
    pub fn truth(&self) -> bool {
        let Value::Bool(truth) = self else { panic!("{self:?} is no truth") };
        *truth
    }

    /// The header's field, if it is valid.
    ///
    /// # Panics
    /// It is no header.
    pub fn header(&self) -> Option<u8> {
        let Value::Header(header) = self else { panic!("{self:?} is no header") };
        *header
    }

    /// Whether a header, or some member of a union, is valid.
    pub fn is_valid(&self) -> bool {
        matches!(self, Value::Header(Some(_)) | Value::Union(Some(_)))
    }

    /// A part. Fields of invalid headers read as 0.
    ///
    /// # Panics
    /// There is no such part.
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

    /// Writes a part. `union_alone` is wrong: a member that becomes invalid leaves the others.
    ///
    /// # Panics
    /// There is no such part.
    pub fn set(&mut self, path: &[Select], new: Value, union_alone: bool) {
        let Some((first, rest)) = path.split_first() else {
            *self = new;
            return;
        };
        // "Copied recursively": the part, changed, is the part from now on.
        let mut part = self.get(&path[..1]);
        let was_valid = part.is_valid();
        part.set(rest, new, union_alone);
        match (self, *first, part) {
            (Value::Struct(fields), Select::Field(n), part) => fields[n] = part.bits(),
            // "Writing to a field of an invalid header" keeps nothing.
            (Value::Header(header), Select::Field(0), part) => *header = header.map(|_| part.bits()),
            (Value::Stack(elements), Select::Element(n), part) => elements[n] = part.header(),
            (Value::Bits(bits), Select::Nibble(lo), part) => *bits = *bits & !(15 << lo) | part.bits() << lo,
            (Value::Union(valid), Select::Field(n), part) => match part.header() {
                // "If e is valid, then it is equivalent to u.hi.setValid(); u.hi = e", which makes
                // the others invalid.
                Some(field) => *valid = Some((n, field)),
                // A write to a field of a member that is invalid.
                None if !rest.is_empty() => {}
                None if union_alone && !was_valid => {}
                // "If e is invalid, then it is equivalent to u.hi.setInvalid()": of any valid
                // member the bit becomes false.
                None => *valid = None,
            },
            (value, first, _) => panic!("{value:?} has no {first:?}"),
        }
    }
}

/// The state that a packet's bytes make: the same that [`super::print`] has the parser make of
/// them.
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

/// What leaves: each state variable, flattened, then the register's cells.
pub fn output(state: &[Value], cells: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut header = |header: Option<u8>| out.extend([u8::from(header.is_some()), header.unwrap_or(0)]);
    for value in state {
        match value {
            Value::Bits(bits) => header(Some(*bits)),
            Value::Struct(fields) => fields.iter().for_each(|field| header(Some(*field))),
            Value::Header(one) => header(*one),
            Value::Stack(elements) => elements.iter().for_each(|element| header(*element)),
            Value::Union(valid) => {
                for n in 0..FIELDS {
                    header(valid.filter(|(member, _)| *member == n).map(|(_, field)| field));
                }
            }
            Value::Bool(_) => panic!("no state is a truth"),
        }
    }
    cells.iter().for_each(|cell| header(Some(*cell)));
    out
}
