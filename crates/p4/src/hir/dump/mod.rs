//! The typed program as P4-like text, for `--dump typed` and goldens.
//!
//! All that checking decided is written out: casts, widths of literals, type arguments, default arguments. What is of
//! no matter after checking is left out: constants, typedefs, annotations, and the declarations of included files that
//! have no body.

mod expr;
mod object;
mod stmt;

use super::{Direction, LocalId, LocalKind, Method, Program, Ty};
use std::fmt::Write;

/// The program as text.
pub fn dump(program: &Program) -> String {
    let mut dump = Dump { program, text: String::new(), indent: 0 };
    dump.program();
    dump.text
}

/// The text so far.
struct Dump<'p> {
    program: &'p Program,
    text: String,
    indent: usize,
}

impl Dump<'_> {
    /// A line at the current indentation.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = self.indent * 4);
    }

    /// Lines one level deeper, between braces.
    fn braces(&mut self, head: &str, inside: impl FnOnce(&mut Self)) {
        self.line(&format!("{head} {{"));
        self.indent += 1;
        inside(self);
        self.indent -= 1;
        self.line("}");
    }

    fn program(&mut self) {
        let p = self.program;
        self.line(&format!("error {{ {} }}", p.errors.join(", ")));
        self.line(&format!("match_kind {{ {} }}", p.match_kinds.join(", ")));
        for e in &p.enums {
            let under = e.underlying.map_or(String::new(), |ty| format!("{} ", self.ty(ty)));
            let members = e.members.iter().map(|(name, value)| match value {
                Some(value) => format!("{name} = {value}"),
                None => name.to_string(),
            });
            let members: Vec<String> = members.collect();
            self.line(&format!("enum {under}{} {{ {} }}", e.name, members.join(", ")));
        }
        for n in &p.newtypes {
            self.line(&format!("type {} {};", self.ty(n.of), n.name));
        }
        for s in &p.structs {
            let head = format!("{} {}{}", s.kind.as_str(), s.name, self.type_params(&s.type_params));
            self.braces(&head, |d| {
                for f in &s.fields {
                    d.line(&format!("{} {};", d.ty(f.ty), f.name));
                }
            });
        }
        for f in &p.functions {
            let head = format!(
                "{} {}{}({})",
                self.ty(f.result),
                f.name,
                self.type_params(&f.type_params),
                self.params(&f.params)
            );
            self.braces(&head, |d| d.stmts(&f.body));
        }
        for a in p.actions.iter().filter(|a| a.owner.is_none()) {
            self.action(a);
        }
        for o in &p.objects {
            self.object(o);
        }
        for id in &p.globals {
            self.instance(*id);
        }
    }

    fn ty(&self, ty: Ty) -> String {
        self.program.show(ty)
    }

    fn types(&self, types: &[Ty]) -> String {
        match types {
            [] => String::new(),
            types => format!("<{}>", types.iter().map(|t| self.ty(*t)).collect::<Vec<_>>().join(", ")),
        }
    }

    fn type_params(&self, params: &[super::TypeParamId]) -> String {
        match params {
            [] => String::new(),
            params => {
                let names: Vec<&str> = params.iter().map(|p| &*self.program.type_params[p.index()]).collect();
                format!("<{}>", names.join(", "))
            }
        }
    }

    fn local(&self, id: LocalId) -> &str {
        &self.program.locals[id.index()].name
    }

    fn params(&self, params: &[LocalId]) -> String {
        params.iter().map(|p| self.param(*p)).collect::<Vec<_>>().join(", ")
    }

    fn param(&self, id: LocalId) -> String {
        let local = &self.program.locals[id.index()];
        let (direction, default, optional) = match &local.kind {
            LocalKind::Param(direction, default, optional) => (*direction, default.as_ref(), *optional),
            LocalKind::ConstructorParam(default, optional) => (Direction::None, default.as_ref(), *optional),
            LocalKind::Var => (Direction::None, None, false),
        };
        let mut text = if optional { "@optional ".to_owned() } else { String::new() };
        if direction != Direction::None {
            let _ = write!(text, "{} ", direction.as_str());
        }
        let _ = write!(text, "{} {}", self.ty(local.ty), local.name);
        if let Some(default) = default {
            let _ = write!(text, " = {}", self.expr(default));
        }
        text
    }

    /// The name of a method of an extern.
    fn method(methods: &[Method], at: usize) -> &str {
        methods.get(at).map_or("?", |m| &m.name)
    }
}
