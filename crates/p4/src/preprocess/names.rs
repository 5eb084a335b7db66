//! Interned names with their current macro definitions.

use super::definition::{BuiltinMacro, Macro, MacroDefinition};
use super::token::{PpToken, Symbol};
use std::collections::HashMap;
use std::rc::Rc;

/// A name with its macro definition and flags.
#[derive(Debug)]
pub(super) struct NameEntry {
    pub text: Rc<str>,
    pub definition: MacroDefinition,
    /// Whether the macro is being expanded. It is then not expanded again.
    pub is_disabled: bool,
    /// Whether `#pragma GCC poison` forbids the name.
    pub is_poisoned: bool,
    /// Whether every redefinition is reported.
    pub is_guarded: bool,
    /// Index from 1 of the parameter of that name while a macro is being defined; otherwise 0.
    pub parameter: u32,
    /// Answers that `#assert` gave the name as a predicate.
    pub answers: Vec<Vec<PpToken>>,
}

#[derive(Debug)]
pub(super) struct NameTable {
    symbols: HashMap<Rc<str>, Symbol>,
    nodes: Vec<NameEntry>,
    pub defined: Symbol,
    pub va_args: Symbol,
    pub va_opt: Symbol,
}

/// cpp macros that remain under `-undef`, and whether every redefinition is reported.
const BUILTINS: &[(&str, BuiltinMacro, bool)] = &[
    ("__LINE__", BuiltinMacro::Line, true),
    ("__FILE__", BuiltinMacro::File, false),
    ("__BASE_FILE__", BuiltinMacro::BaseFile, false),
    ("__INCLUDE_LEVEL__", BuiltinMacro::IncludeLevel, true),
    ("__COUNTER__", BuiltinMacro::Counter, true),
    ("__DATE__", BuiltinMacro::Date, false),
    ("__TIME__", BuiltinMacro::Time, false),
    ("__TIMESTAMP__", BuiltinMacro::Timestamp, false),
    ("__STDC__", BuiltinMacro::One, true),
    ("__has_include", BuiltinMacro::HasInclude, true),
    ("__has_include_next", BuiltinMacro::HasIncludeNext, true),
    ("_Pragma", BuiltinMacro::Pragma, true),
];

impl Default for NameTable {
    fn default() -> Self {
        let mut names = NameTable { symbols: HashMap::new(), nodes: Vec::new(), defined: 0, va_args: 0, va_opt: 0 };
        names.defined = names.intern("defined");
        names.va_args = names.intern("__VA_ARGS__");
        names.va_opt = names.intern("__VA_OPT__");
        for (name, builtin, is_guarded) in BUILTINS {
            let symbol = names.intern(name);
            let node = names.node_mut(symbol);
            node.definition = MacroDefinition::Builtin(*builtin);
            node.is_guarded = *is_guarded;
        }
        names
    }
}

impl NameTable {
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.symbols.get(text) {
            return *known;
        }
        let symbol = self.nodes.len() as Symbol;
        let text: Rc<str> = text.into();
        self.symbols.insert(text.clone(), symbol);
        self.nodes.push(NameEntry {
            text,
            definition: MacroDefinition::None,
            is_disabled: false,
            is_poisoned: false,
            is_guarded: false,
            parameter: 0,
            answers: Vec::new(),
        });
        symbol
    }

    /// Returns the entry of a symbol from [`Self::intern`].
    pub fn node(&self, symbol: Symbol) -> &NameEntry {
        &self.nodes[symbol as usize]
    }

    /// Returns the entry of a symbol for modification.
    pub fn node_mut(&mut self, symbol: Symbol) -> &mut NameEntry {
        &mut self.nodes[symbol as usize]
    }

    pub fn is_defined(&self, symbol: Symbol) -> bool {
        !matches!(self.node(symbol).definition, MacroDefinition::None)
    }

    /// Returns the user-defined macro of that name.
    pub fn user_macro(&self, symbol: Symbol) -> Option<&Rc<Macro>> {
        match &self.node(symbol).definition {
            MacroDefinition::User(definition) => Some(definition),
            _ => None,
        }
    }

    /// Removes the definition of the name.
    pub fn undefine(&mut self, symbol: Symbol) {
        let node = self.node_mut(symbol);
        node.definition = MacroDefinition::None;
        node.is_disabled = false;
    }
}
