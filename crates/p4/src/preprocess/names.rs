//! Names: one symbol for all that are spelled alike, with what it means at the moment.

use super::definition::{Builtin, Definition, Macro};
use super::token::{PpToken, Symbol};
use std::collections::HashMap;
use std::rc::Rc;

/// All about a name.
#[derive(Debug)]
pub(super) struct Node {
    pub text: Rc<str>,
    pub definition: Definition,
    /// The macro is being expanded: it is not expanded within itself.
    pub disabled: bool,
    /// `#pragma GCC poison`
    pub poisoned: bool,
    /// Every redefinition is told.
    pub guarded: bool,
    /// Index of the parameter of that name, from 1, while a macro is being defined.
    pub parameter: u32,
    /// What `#assert` said of the name as a predicate.
    pub answers: Vec<Vec<PpToken>>,
}

#[derive(Debug)]
pub(super) struct Names {
    symbols: HashMap<Rc<str>, Symbol>,
    nodes: Vec<Node>,
    pub defined: Symbol,
    pub va_args: Symbol,
    pub va_opt: Symbol,
}

/// cpp's macros that `-undef` leaves, and whether every redefinition of one is told.
const BUILTINS: &[(&str, Builtin, bool)] = &[
    ("__LINE__", Builtin::Line, true),
    ("__FILE__", Builtin::File, false),
    ("__BASE_FILE__", Builtin::BaseFile, false),
    ("__INCLUDE_LEVEL__", Builtin::IncludeLevel, true),
    ("__COUNTER__", Builtin::Counter, true),
    ("__DATE__", Builtin::Date, false),
    ("__TIME__", Builtin::Time, false),
    ("__TIMESTAMP__", Builtin::Timestamp, false),
    ("__STDC__", Builtin::One, true),
    ("__has_include", Builtin::HasInclude, true),
    ("__has_include_next", Builtin::HasIncludeNext, true),
    ("_Pragma", Builtin::Pragma, true),
];

impl Default for Names {
    fn default() -> Self {
        let mut names = Names { symbols: HashMap::new(), nodes: Vec::new(), defined: 0, va_args: 0, va_opt: 0 };
        names.defined = names.intern("defined");
        names.va_args = names.intern("__VA_ARGS__");
        names.va_opt = names.intern("__VA_OPT__");
        for (name, builtin, guarded) in BUILTINS {
            let symbol = names.intern(name);
            let node = names.node_mut(symbol);
            node.definition = Definition::Builtin(*builtin);
            node.guarded = *guarded;
        }
        names
    }
}

impl Names {
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.symbols.get(text) {
            return *known;
        }
        let symbol = self.nodes.len() as Symbol;
        let text: Rc<str> = text.into();
        self.symbols.insert(text.clone(), symbol);
        self.nodes.push(Node {
            text,
            definition: Definition::None,
            disabled: false,
            poisoned: false,
            guarded: false,
            parameter: 0,
            answers: Vec::new(),
        });
        symbol
    }

    /// The name of a symbol that [`Self::intern`] gave.
    pub fn node(&self, symbol: Symbol) -> &Node {
        &self.nodes[symbol as usize]
    }

    /// As [`Self::node`].
    pub fn node_mut(&mut self, symbol: Symbol) -> &mut Node {
        &mut self.nodes[symbol as usize]
    }

    pub fn is_defined(&self, symbol: Symbol) -> bool {
        !matches!(self.node(symbol).definition, Definition::None)
    }

    /// The macro of that name that the text defined.
    pub fn user_macro(&self, symbol: Symbol) -> Option<&Rc<Macro>> {
        match &self.node(symbol).definition {
            Definition::User(definition) => Some(definition),
            _ => None,
        }
    }

    /// Makes the name mean nothing.
    pub fn undefine(&mut self, symbol: Symbol) {
        let node = self.node_mut(symbol);
        node.definition = Definition::None;
        node.disabled = false;
    }
}
