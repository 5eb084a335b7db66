//! How much memory a message takes once it is unpacked, known before it is: two bytes of a message can stand for an [`Update`] of hundreds.
//!
//! [`Update`]: crate::proto::v1::Update

use crate::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Growing lists have room for twice as many elements as they hold.
const GROWTH: usize = 2;

/// Messages inside of each other that are unpacked at most (prost's bound).
const DEPTH: usize = 100;

/// What a field takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing more than its place in its message.
    Place,
    /// Its bytes.
    Text,
    /// An element of a list of texts.
    Texts,
    /// Numbers: one, or in one piece as many as there are bytes.
    Numbers,
    /// A message of that kind, in its place.
    One(usize),
    /// A message of that kind, in a list.
    Many(usize),
}

/// A kind of message.
struct Kind {
    fields: BTreeMap<u32, Shape>,
    /// Bytes of its own, without what its lists hold.
    size: usize,
}

struct Kinds {
    kinds: Vec<Kind>,
    /// Numbers of kinds, by their full names with a point in front.
    numbers: BTreeMap<String, usize>,
}

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::new);

/// A message of more bytes, unpacked, than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// The bytes of memory that a message takes when it is unpacked: about, and not less. `name`: its full name in its `.proto` file. What is no such
/// message is weighed up to where it is wrong; unpacking stops there as well.
///
/// # Errors
/// If they are more than `bound`.
pub fn weigh(name: &str, bytes: &[u8], bound: usize) -> Result<usize, TooMuch> {
    let Some(kind) = KINDS.numbers.get(&format!(".{name}")) else { return Ok(0) };
    let mut weight = 0;
    KINDS.weigh(*kind, bytes, DEPTH, &mut |more| {
        weight += more;
        if weight > bound { Err(TooMuch) } else { Ok(()) }
    })?;
    Ok(weight)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << (7 * at);
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = rest;
    Some(taken)
}

impl Kinds {
    fn new() -> Kinds {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
        let mut all = BTreeMap::new();
        for file in &set.file {
            file.message_type.iter().for_each(|message| collect(&format!(".{}", file.package()), message, &mut all));
        }
        let numbers: BTreeMap<String, usize> = all.keys().cloned().zip(0..).collect();
        let kind = |message: &&DescriptorProto| Kind {
            fields: message.field.iter().map(|field| (field.number().unsigned_abs(), shape(field, &numbers))).collect(),
            size: size(message, &all, &mut Vec::new()),
        };
        Kinds { kinds: all.values().map(kind).collect(), numbers }
    }

    /// Adds up what is in a message; nothing, where it can't be read any more.
    fn weigh(
        &self,
        kind: usize,
        mut bytes: &[u8],
        depth: usize,
        add: &mut dyn FnMut(usize) -> Result<(), TooMuch>,
    ) -> Result<(), TooMuch> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        while let Some(tag) = varint(&mut bytes) {
            let field = u32::try_from(tag >> 3).unwrap_or(0);
            let shape = self.kinds[kind].fields.get(&field).copied().unwrap_or(Shape::Place);
            let inside = match tag & 7 {
                0 => varint(&mut bytes).map(|_| None),
                1 => take(&mut bytes, 8).map(|_| None),
                2 => varint(&mut bytes).and_then(|length| take(&mut bytes, length)).map(Some),
                5 => take(&mut bytes, 4).map(|_| None),
                // Groups, which are of no field that there is: what is in them counts as if it were outside.
                3 | 4 => continue,
                _ => None,
            };
            let Some(inside) = inside else { return Ok(()) };
            match (shape, inside) {
                (Shape::Place, _) => {}
                (Shape::Text, inside) => add(inside.map_or(0, <[u8]>::len))?,
                (Shape::Texts, inside) => add(GROWTH * size_of::<bytes::Bytes>() + inside.map_or(0, <[u8]>::len))?,
                (Shape::Numbers, inside) => add(GROWTH * 8 * inside.map_or(1, <[u8]>::len))?,
                (Shape::One(kind), Some(inside)) => self.weigh(kind, inside, depth, add)?,
                (Shape::Many(kind), Some(inside)) => {
                    add(GROWTH * self.kinds[kind].size)?;
                    self.weigh(kind, inside, depth, add)?;
                }
                // Unpacking stops there.
                (Shape::One(_) | Shape::Many(_), None) => return Ok(()),
            }
        }
        Ok(())
    }
}

fn collect<'a>(around: &str, message: &'a DescriptorProto, all: &mut BTreeMap<String, &'a DescriptorProto>) {
    let name = format!("{around}.{}", message.name());
    message.nested_type.iter().for_each(|nested| collect(&name, nested, all));
    all.insert(name, message);
}

fn shape(field: &FieldDescriptorProto, numbers: &BTreeMap<String, usize>) -> Shape {
    let many = field.label() == Label::Repeated;
    match field.r#type() {
        Type::Message | Type::Group => match (numbers.get(field.type_name()), many) {
            (Some(kind), true) => Shape::Many(*kind),
            (Some(kind), false) => Shape::One(*kind),
            (None, _) => Shape::Place,
        },
        Type::String | Type::Bytes if many => Shape::Texts,
        Type::String => Shape::Text,
        // A part of the message as it was received.
        Type::Bytes => Shape::Place,
        _ if many => Shape::Numbers,
        _ => Shape::Place,
    }
}

/// Bytes of a message, not less than what Rust makes of it: its fields with alignment, one of each `oneof`.
fn size<'a>(
    message: &'a DescriptorProto,
    all: &BTreeMap<String, &'a DescriptorProto>,
    around: &mut Vec<*const DescriptorProto>,
) -> usize {
    let mut plain = 8;
    let mut choices = BTreeMap::<i32, usize>::new();
    around.push(std::ptr::from_ref(message));
    for field in &message.field {
        let bytes = match (field.label() == Label::Repeated, field.r#type()) {
            (true, _) => 24,
            (false, Type::Message | Type::Group) => match all.get(field.type_name()) {
                // Messages that have themselves inside are elsewhere.
                Some(inner) if !around.contains(&std::ptr::from_ref(*inner)) => 8 + size(inner, all, around),
                _ => 8,
            },
            (false, Type::String | Type::Bytes) => 32,
            (false, _) => 16,
        };
        match field.oneof_index {
            Some(choice) => choices.entry(choice).and_modify(|most| *most = bytes.max(*most)).or_insert(bytes),
            None => {
                plain += bytes;
                &mut plain
            }
        };
    }
    around.pop();
    plain + choices.values().map(|most| most + 8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{config, v1};
    use prost::Name;

    fn size_of_kind<T: Name>() -> usize {
        KINDS.kinds[KINDS.numbers[&format!(".{}", T::full_name())]].size
    }

    #[test]
    fn kinds_are_as_large_as_what_is_made_of_them_and_not_much_larger() {
        fn check<T: Name>() {
            let (ours, real) = (size_of_kind::<T>(), size_of::<T>());
            assert!(ours >= real && ours <= 3 * real, "{}: {ours}, {real} in memory", T::full_name());
        }
        check::<v1::Update>();
        check::<v1::Entity>();
        check::<v1::TableEntry>();
        check::<v1::FieldMatch>();
        check::<v1::action::Param>();
        check::<v1::Action>();
        check::<v1::ActionProfileAction>();
        check::<v1::action_profile_group::Member>();
        check::<v1::Replica>();
        check::<v1::P4Data>();
        check::<v1::PacketMetadata>();
        check::<v1::ValueSetMember>();
        check::<config::Table>();
        check::<config::Action>();
        check::<config::MatchField>();
        check::<config::P4Info>();
    }

    #[test]
    fn a_short_message_of_many_updates_weighs_what_they_take() {
        let many = v1::WriteRequest { updates: vec![v1::Update::default(); 10_000], ..v1::WriteRequest::default() };
        let (bytes, name) = (many.encode_to_vec(), v1::WriteRequest::full_name());
        let real = 10_000 * size_of::<v1::Update>();
        assert_eq!(bytes.len(), 20_000);
        let weight = weigh(&name, &bytes, usize::MAX).unwrap();
        assert!((real..6 * real).contains(&weight), "{weight}, {real} in memory");
        assert_eq!(weigh(&name, &bytes, weight - 1), Err(TooMuch));
        // As many, after something that is not known, in a group, and before what can't be read.
        let odd = [&[0x7b, 0x08, 0x01, 0x7c][..], &bytes, &[0x22, 0x7f]].concat();
        assert_eq!(weigh(&name, &odd, usize::MAX), Ok(weight));
        let packet = v1::PacketOut { payload: vec![0; 5_000].into(), metadata: vec![v1::PacketMetadata::default(); 3] };
        let weight = weigh(&v1::PacketOut::full_name(), &packet.encode_to_vec(), usize::MAX).unwrap();
        assert!((120..1_000).contains(&weight), "bytes are parts of what was received: {weight}");
    }
}
