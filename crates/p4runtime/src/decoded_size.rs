//! Decoded size of a message, computed before it is decoded: two bytes of a message can encode an
//! [`Update`] of hundreds of bytes in memory.
//!
//! [`Update`]: crate::proto::v1::Update

use crate::proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Ratio of a growing list's capacity to its length.
const GROWTH: usize = 2;

/// Maximum nesting of messages (prost's limit).
const DEPTH: usize = 100;

/// Memory that a field takes beyond its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldSize {
    /// None.
    Place,
    /// Bytes of a string.
    Text,
    /// Element of a list of strings.
    Texts,
    /// Numbers: a single one, or packed, at most one for each byte.
    Numbers,
    /// Message of this type, stored in line.
    One(usize),
    /// Message of this type in a list.
    Many(usize),
}

/// Sizes of a message type.
struct MessageSize {
    fields: BTreeMap<u32, FieldSize>,
    /// Bytes of the message without the contents of its lists.
    size: usize,
}

struct MessageSizes {
    kinds: Vec<MessageSize>,
    /// Indices of message types, by full name with a leading dot.
    numbers: BTreeMap<String, usize>,
}

static KINDS: LazyLock<MessageSizes> = LazyLock::new(MessageSizes::new);

/// Error: the decoded size of a message is beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedTooLarge;

/// Returns an upper estimate of the memory in bytes that a decoded message takes. `name` is the
/// full name of its type in the `.proto` file. An invalid message is measured up to its first
/// error, where decoding also stops.
///
/// # Errors
/// The size is beyond `bound`.
pub fn weigh(name: &str, bytes: &[u8], bound: usize) -> Result<usize, DecodedTooLarge> {
    let Some(kind) = KINDS.numbers.get(&format!(".{name}")) else { return Ok(0) };
    let mut weight = 0;
    KINDS.weigh(*kind, bytes, DEPTH, &mut |more| {
        weight += more;
        if weight > bound { Err(DecodedTooLarge) } else { Ok(()) }
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

impl MessageSizes {
    fn new() -> MessageSizes {
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
        let mut all = BTreeMap::new();
        for file in &set.file {
            file.message_type.iter().for_each(|message| collect(&format!(".{}", file.package()), message, &mut all));
        }
        let numbers: BTreeMap<String, usize> = all.keys().cloned().zip(0..).collect();
        let kind = |message: &&DescriptorProto| MessageSize {
            fields: message.field.iter().map(|field| (field.number().unsigned_abs(), shape(field, &numbers))).collect(),
            size: size(message, &all, &mut Vec::new()),
        };
        MessageSizes { kinds: all.values().map(kind).collect(), numbers }
    }

    /// Adds up the sizes of a message's contents, up to the first invalid field. `kind` is the
    /// number of the message's type, `add` adds bytes and fails beyond the limit. Contents deeper
    /// than `depth` are not counted, because decoding rejects them.
    fn weigh(
        &self,
        kind: usize,
        mut bytes: &[u8],
        depth: usize,
        add: &mut dyn FnMut(usize) -> Result<(), DecodedTooLarge>,
    ) -> Result<(), DecodedTooLarge> {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        while let Some(tag) = varint(&mut bytes) {
            let field = u32::try_from(tag >> 3).unwrap_or(0);
            let field_size = self.kinds[kind].fields.get(&field).copied().unwrap_or(FieldSize::Place);
            let content = match tag & 7 {
                0 => varint(&mut bytes).map(|_| None),
                1 => take(&mut bytes, 8).map(|_| None),
                2 => varint(&mut bytes).and_then(|length| take(&mut bytes, length)).map(Some),
                5 => take(&mut bytes, 4).map(|_| None),
                // Groups belong to unknown fields only. Their contents are counted as if they were
                // outside of the group.
                3 | 4 => continue,
                _ => None,
            };
            let Some(content) = content else { return Ok(()) };
            match (field_size, content) {
                (FieldSize::Place, _) => {}
                (FieldSize::Text, content) => add(content.map_or(0, <[u8]>::len))?,
                (FieldSize::Texts, content) => {
                    add(GROWTH * size_of::<bytes::Bytes>() + content.map_or(0, <[u8]>::len))?
                }
                (FieldSize::Numbers, content) => add(GROWTH * 8 * content.map_or(1, <[u8]>::len))?,
                (FieldSize::One(kind), Some(content)) => self.weigh(kind, content, depth, add)?,
                (FieldSize::Many(kind), Some(content)) => {
                    add(GROWTH * self.kinds[kind].size)?;
                    self.weigh(kind, content, depth, add)?;
                }
                // Decoding stops here.
                (FieldSize::One(_) | FieldSize::Many(_), None) => return Ok(()),
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

fn shape(field: &FieldDescriptorProto, numbers: &BTreeMap<String, usize>) -> FieldSize {
    let many = field.label() == Label::Repeated;
    match field.r#type() {
        Type::Message | Type::Group => match (numbers.get(field.type_name()), many) {
            (Some(kind), true) => FieldSize::Many(*kind),
            (Some(kind), false) => FieldSize::One(*kind),
            (None, _) => FieldSize::Place,
        },
        Type::String | Type::Bytes if many => FieldSize::Texts,
        Type::String => FieldSize::Text,
        // A slice of the received message.
        Type::Bytes => FieldSize::Place,
        _ if many => FieldSize::Numbers,
        _ => FieldSize::Place,
    }
}

/// Returns an upper bound of the size of the Rust struct of a message in bytes: its fields with
/// alignment, and one alternative of each `oneof`. `enclosing` has the messages that contain this
/// one.
fn size<'a>(
    message: &'a DescriptorProto,
    all: &BTreeMap<String, &'a DescriptorProto>,
    enclosing: &mut Vec<*const DescriptorProto>,
) -> usize {
    let mut field_bytes = 8;
    let mut oneof_bytes = BTreeMap::<i32, usize>::new();
    enclosing.push(std::ptr::from_ref(message));
    for field in &message.field {
        let bytes = match (field.label() == Label::Repeated, field.r#type()) {
            (true, _) => 24,
            (false, Type::Message | Type::Group) => match all.get(field.type_name()) {
                // Recursive messages are boxed.
                Some(inner) if !enclosing.contains(&std::ptr::from_ref(*inner)) => 8 + size(inner, all, enclosing),
                _ => 8,
            },
            (false, Type::String | Type::Bytes) => 32,
            (false, _) => 16,
        };
        match field.oneof_index {
            Some(oneof) => oneof_bytes.entry(oneof).and_modify(|max| *max = bytes.max(*max)).or_insert(bytes),
            None => {
                field_bytes += bytes;
                &mut field_bytes
            }
        };
    }
    enclosing.pop();
    field_bytes + oneof_bytes.values().map(|max| max + 8).sum::<usize>()
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
        assert_eq!(weigh(&name, &bytes, weight - 1), Err(DecodedTooLarge));
        // Equal size after an unknown field in a group and before an invalid field.
        let odd = [&[0x7b, 0x08, 0x01, 0x7c][..], &bytes, &[0x22, 0x7f]].concat();
        assert_eq!(weigh(&name, &odd, usize::MAX), Ok(weight));
        let packet = v1::PacketOut { payload: vec![0; 5_000].into(), metadata: vec![v1::PacketMetadata::default(); 3] };
        let weight = weigh(&v1::PacketOut::full_name(), &packet.encode_to_vec(), usize::MAX).unwrap();
        assert!((120..1_000).contains(&weight), "bytes are parts of what was received: {weight}");
    }
}
