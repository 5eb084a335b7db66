//! Strings of the control plane for values of the data plane: types with
//! `@p4runtime_translation(URI, string)`, which P4Info calls `sdn_string` (P4Runtime specification,
//! sections "User-defined types" and "PSA Metadata Translation").
//!
//! The rest of this crate handles numbers only. Strings are replaced by numbers in a message before
//! it is decoded, and numbers by strings in a message before it is sent. Therefore a single
//! traversal serves all entities ([`traversal`]).
//!
//! A *space* is a set of types with a common mapping: all types with the same URI, or, with an
//! empty URI, one type. The value of a string is defined, in this order, by
//!
//! 1. the program (`@p4runtime_translation_mappings`) and the device's configuration
//!    ([`Translations`]), which are fixed;
//! 2. the names of the device's ports, for a space of port names. A space has port names if it is
//!    configured so, or if the program sends packets to its values (`port_inference`). In the
//!    second case a port's number is also a name of it, and the name written first is used;
//! 3. the device itself: a string that is written for the first time gets a value that no other
//!    string has ([`allocation`]). The mapping is stored with the write ([`entries::SdnStrings`]),
//!    so that it survives a restart;
//! 4. the string itself: `#5` is the value 5, if no other string has this value. Thus each value of
//!    the data plane or of the program has a string that can be written.

mod allocation;
mod port_inference;
mod replacement;
mod traversal;

pub(super) use allocation::Pending;
pub use replacement::StringsOf;
pub(super) use replacement::string_writes;

use super::scalar::ones;
use crate::P4RuntimeError;
use entries::ControlState;
use ir::{DataType, ExternKind, NamedType, Pipeline};
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum length of a string in bytes.
pub(super) const MAX_STRING: usize = 512;

/// Configuration of a translation in a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Values of strings.
    pub values: BTreeMap<String, u64>,
    /// Whether the strings are names of the device's ports. Watch ports and ports of replicas are
    /// then such strings, too.
    pub ports: bool,
    /// Whether other strings get values when they are first written.
    pub allocate: bool,
}

/// Translations of a device's configuration, by URI or, for types with an empty URI, by type name.
pub type Translations = BTreeMap<String, Translation>;

/// Set of types with a common mapping between strings and values.
#[derive(Debug)]
pub(super) struct StringSpace {
    pub key: Arc<str>,
    /// Width in bits of its narrowest type.
    width: u32,
    fixed: HashMap<String, BigUint>,
    fixed_strings: HashMap<BigUint, String>,
    ports: bool,
    /// Whether `ports` is inferred from the program, which sends packets to these values, and not
    /// configured.
    is_inferred: bool,
    allocates: bool,
    /// Values in the program's own entries and default actions.
    reserved: BTreeSet<BigUint>,
    /// Whether its values can be in places that cannot be searched (registers, indices). A value is
    /// then never reused for another string.
    never_reuses: bool,
}

/// The string spaces of a program.
#[derive(Debug, Default)]
pub(super) struct Strings {
    spaces: BTreeMap<Arc<str>, StringSpace>,
    /// Space of each type.
    of_type: HashMap<String, Arc<str>>,
    /// Space of port names.
    ports: Option<Arc<str>>,
}

/// Returns URI (or name) and width of a type with string values.
fn string_type<'p>(pipeline: &'p Pipeline, name: &'p str, ty: &'p NamedType) -> Option<(&'p str, u32)> {
    let NamedType::NewType(of, Some((uri, None))) = ty else { return None };
    let key = if uri.is_empty() { name } else { uri };
    let mut of = of;
    // The chain is at most as long as the number of types.
    for _ in 0..pipeline.named_types.len() {
        let DataType::Named(inner) = of else { break };
        match pipeline.named_types.iter().find(|(other, _)| other == inner) {
            Some((_, NamedType::NewType(next, _))) => of = next,
            _ => break,
        }
    }
    match of {
        DataType::Bit(width) => Some((key, *width)),
        _ => None,
    }
}

/// Returns the width in bits of the values of a space in a program; `None` if it has no such space.
pub fn string_width(pipeline: &Pipeline, space: &str) -> Option<u32> {
    let types = pipeline.named_types.iter().filter_map(|(name, ty)| string_type(pipeline, name, ty));
    types.filter(|(key, _)| *key == space).map(|(_, width)| width).min()
}

impl Strings {
    /// Collects the types of a program that have strings, with the strings that the program or the
    /// device's configuration fixes, and the values that the program itself uses.
    pub fn new(pipeline: &Pipeline, translations: &Translations) -> Strings {
        let mut strings = Strings::default();
        for (name, ty) in &pipeline.named_types {
            let Some((key, width)) = string_type(pipeline, name, ty) else { continue };
            let key: Arc<str> = key.into();
            strings.of_type.insert(name.clone(), key.clone());
            let space = strings.spaces.entry(key.clone()).or_insert_with(|| StringSpace::new(key, width));
            space.width = space.width.min(width);
            let program_mappings = pipeline.mappings.get(name).into_iter().flatten();
            program_mappings.for_each(|(string, value)| space.add_fixed(string, value.clone()));
        }
        for (key, space) in &mut strings.spaces {
            let Some(translation) = translations.get(&**key) else { continue };
            translation.values.iter().for_each(|(string, value)| space.add_fixed(string, BigUint::from(*value)));
            (space.ports, space.allocates) = (translation.ports, translation.allocate);
            if translation.ports {
                strings.ports = Some(key.clone());
            }
        }
        strings.infer_ports(pipeline, translations);
        strings.reserve_program_values(pipeline);
        strings
    }

    /// Without a configuration, infers that strings of a type to which the program sends packets
    /// are port names.
    fn infer_ports(&mut self, pipeline: &Pipeline, translations: &Translations) {
        if self.spaces.is_empty() || self.ports.is_some() {
            return;
        }
        for key in port_inference::infer_port_spaces(pipeline) {
            if let (None, Some(space)) = (translations.get(&key), self.spaces.get_mut(&*key)) {
                (space.ports, space.is_inferred) = (true, true);
                self.ports.get_or_insert_with(|| space.key.clone());
            }
        }
    }

    /// Returns whether messages have no strings.
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Returns the space of a type.
    pub fn space_of(&self, type_name: Option<&str>) -> Option<&StringSpace> {
        self.spaces.get(self.of_type.get(type_name?)?)
    }

    /// Returns the space of port names.
    pub fn of_ports(&self) -> Option<&StringSpace> {
        self.spaces.get(self.ports.as_ref()?)
    }

    fn space_mut(&mut self, type_name: Option<&str>) -> Option<&mut StringSpace> {
        self.spaces.get_mut(self.of_type.get(type_name?)?)
    }

    /// Reserves the values in the program's own entries and default actions, and marks the types of
    /// objects' indices and data: their values live outside of tables, so no string is freed.
    fn reserve_program_values(&mut self, pipeline: &Pipeline) {
        let mut reserve = |type_name: Option<&str>, value: &BigUint| {
            if let Some(space) = self.space_mut(type_name) {
                space.reserved.insert(value.clone());
            }
        };
        let reserve_args = |reserve_args: &ir::ActionCall, reserve: &mut dyn FnMut(Option<&str>, &BigUint)| {
            let params = pipeline.actions.get(reserve_args.action).map_or(&[][..], |action| &action.params);
            params.iter().zip(&reserve_args.args).for_each(|(param, value)| reserve(param.type_name.as_deref(), value));
        };
        for table in pipeline.tables.values() {
            reserve_args(&table.default_action, &mut reserve);
            for entry in &table.entries {
                reserve_args(&entry.action, &mut reserve);
                for ((_, key), entry_key) in table.match_keys().zip(&entry.keys) {
                    if let ir::KeyMatch::Exact(value) | ir::KeyMatch::Optional(Some(value)) = entry_key {
                        reserve(key.type_name.as_deref(), value);
                    }
                }
            }
        }
        for object in pipeline.externs.values() {
            let (index, data) = match &object.kind {
                ExternKind::Counter { index_type, .. } | ExternKind::Meter { index_type, .. } => (index_type, None),
                ExternKind::Register { index_type, data_type, .. } => (index_type, Some(data_type)),
                _ => continue,
            };
            let mut kept_types: BTreeSet<String> = index.iter().cloned().collect();
            data.into_iter().for_each(|data| names_in(pipeline, data, &mut kept_types));
            for name in kept_types {
                if let Some(space) = self.space_mut(Some(&name)) {
                    space.never_reuses = true;
                }
            }
        }
    }
}

/// Collects the names of all types that a type consists of.
fn names_in(pipeline: &Pipeline, data: &DataType, out: &mut BTreeSet<String>) {
    let name = match data {
        DataType::Named(name) | DataType::Stack(name, _) => name,
        DataType::Tuple(members) => return members.iter().for_each(|member| names_in(pipeline, member, out)),
        _ => return,
    };
    if !out.insert(name.clone()) {
        return;
    }
    match pipeline.named_types.iter().find(|(other, _)| other == name) {
        Some((_, NamedType::Struct(members) | NamedType::Header(members))) => {
            members.iter().for_each(|(_, member)| names_in(pipeline, member, out));
        }
        Some((_, NamedType::NewType(of, _))) => names_in(pipeline, of, out),
        _ => {}
    }
}

/// Strings of values, for tools that show stored entries.
pub struct ShownStrings<'a> {
    strings: Strings,
    state: &'a ControlState,
}

impl<'a> ShownStrings<'a> {
    /// Creates the strings of a state, on a device with these translations.
    pub fn new(state: &'a ControlState, translations: &Translations) -> ShownStrings<'a> {
        ShownStrings { strings: Strings::new(state.pipeline(), translations), state }
    }

    /// Returns the string that controllers see for a value of a type; `None` if they see a number.
    pub fn of(&self, type_name: Option<&str>, value: &BigUint) -> Option<Arc<str>> {
        self.strings.space_of(type_name).map(|space| space.string_or_number(self.state, value))
    }
}

impl StringSpace {
    fn new(key: Arc<str>, width: u32) -> StringSpace {
        StringSpace {
            key,
            width,
            fixed: HashMap::new(),
            fixed_strings: HashMap::new(),
            ports: false,
            is_inferred: false,
            allocates: true,
            reserved: BTreeSet::new(),
            never_reuses: false,
        }
    }

    /// Adds a fixed mapping. The first mapping of a string or value is kept, so that the program
    /// precedes the configuration.
    fn add_fixed(&mut self, string: &str, value: BigUint) {
        if !self.fixed.contains_key(string) && !self.fixed_strings.contains_key(&value) {
            self.fixed.insert(string.to_owned(), value.clone());
            self.fixed_strings.insert(value, string.to_owned());
        }
    }

    /// Returns the value of a string, if it is known. `pending`: strings of the same request.
    fn value(&self, state: &ControlState, pending: Option<&Pending>, string: &str) -> Option<BigUint> {
        if let Some(value) = self.fixed.get(string) {
            return Some(value.clone());
        }
        let port = self.port(state, string).filter(|port| !self.fixed_strings.contains_key(port));
        if let (Some(port), false) = (&port, self.is_inferred) {
            return Some(port.clone());
        }
        let value_by_name = match pending {
            Some(pending) => pending.value(self, state, string),
            None => state.sdn_strings().space(&self.key).and_then(|space| space.value(string)).cloned(),
        };
        value_by_name.filter(|value| !self.fixed_strings.contains_key(value)).or_else(|| {
            // A port that already has another name does not get this one.
            if let Some(port) = port.filter(|port| self.given(state, pending, port).is_none()) {
                return Some(port);
            }
            let value = number_in(string)?;
            let is_in_range = value <= ones(self.width);
            (is_in_range && self.named(state, pending, &value).is_none()).then_some(value)
        })
    }

    /// Returns the port with this name or, if `ports` is inferred, with this number.
    fn port(&self, state: &ControlState, string: &str) -> Option<BigUint> {
        let ports = state.ports().filter(|_| self.ports)?;
        let named = ports.iter().find(|(_, port)| port.name == string).map(|(number, _)| *number);
        let numbered = || {
            let number: u32 = string.parse().ok().filter(|number: &u32| number.to_string() == string)?;
            (self.is_inferred && ports.contains_key(&number)).then_some(number)
        };
        named.or_else(numbered).map(BigUint::from).filter(|number| *number <= ones(self.width))
    }

    /// The string that a value was given when that was written.
    fn given(&self, state: &ControlState, pending: Option<&Pending>, value: &BigUint) -> Option<Arc<str>> {
        let given = match pending {
            Some(pending) => pending.string(self, state, value),
            None => state.sdn_strings().space(&self.key).and_then(|space| space.string(value)).cloned(),
        };
        given.filter(|string| !self.fixed.contains_key(&**string))
    }

    /// Returns the string of a value, if it has one.
    fn named(&self, state: &ControlState, pending: Option<&Pending>, value: &BigUint) -> Option<Arc<str>> {
        if let Some(string) = self.fixed_strings.get(value) {
            return Some(string.as_str().into());
        }
        let ports = state.ports().filter(|_| self.ports);
        let port = ports.and_then(|ports| ports.get(&u32::try_from(value).ok()?));
        let port = port.filter(|port| !self.fixed.contains_key(&port.name)).map(|port| port.name.as_str().into());
        let given = self.given(state, pending, value);
        if self.is_inferred { given.or(port) } else { port.or(given) }
    }

    /// The string by which a value is shown.
    pub fn string_or_number(&self, state: &ControlState, value: &BigUint) -> Arc<str> {
        self.named(state, None, value).unwrap_or_else(|| format!("#{value}").into())
    }

    /// Returns some of the known strings, for error messages.
    fn list_known(&self, state: &ControlState) -> String {
        let ports = state.ports().filter(|_| self.ports).into_iter().flat_map(|ports| ports.values());
        let mut known: Vec<&str> = self.fixed.keys().map(String::as_str).collect();
        known.extend(ports.map(|port| port.name.as_str()));
        known.sort_unstable();
        let more = if known.len() > 8 { ", ..." } else { "" };
        known.truncate(8);
        format!("{}{more}", known.join(", "))
    }

    fn refuse_length(&self, place: &str, string: &[u8]) -> P4RuntimeError {
        P4RuntimeError::invalid(format!("{place}: a string of {} bytes; {MAX_STRING} at most", string.len()))
    }
}

/// Parses a string like `#5`.
fn number_in(string: &str) -> Option<BigUint> {
    let digits = string.strip_prefix('#')?;
    let canonical = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    let canonical = canonical && (digits == "0" || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten()
}
