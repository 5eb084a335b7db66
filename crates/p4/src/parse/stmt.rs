//! Statements.

use super::cursor::{Failed, Parse, Parser};
use super::scope::NameKind;
use crate::ast::{
    Annotations, Arg, BinaryOp, Block, ConstDecl, Expr, ExprKind, ForInStmt, ForStmt, InstanceDecl, Stmt, StmtKind,
    SwitchCase, Type, VarDecl,
};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::span::Span;

/// What a type at the start of a statement began.
enum Declared {
    Var(VarDecl),
    Instance(InstanceDecl),
    /// `T.apply(args)` or another expression that begins with a type.
    Expr(Expr),
}

impl Parser<'_> {
    /// `{ ... }` with annotations in front, in a scope of its own.
    pub fn block(&mut self, annotations: Annotations) -> Parse<Block> {
        let start = self.span();
        let scope = self.scopes.depth();
        self.scopes.push();
        let stmts = self.nested(|p| p.braced(Self::stmt));
        self.scopes.truncate(scope);
        Ok(Block { annotations, stmts: stmts?, span: self.since(start) })
    }

    /// A statement or a declaration in a block.
    pub fn stmt(&mut self) -> Parse<Stmt> {
        self.nested(|p| {
            let start = p.span();
            let kind = p.stmt_kind()?;
            Ok(Stmt { kind, span: p.since(start) })
        })
    }

    fn stmt_kind(&mut self) -> Parse<StmtKind> {
        let start = self.span();
        let annotations = self.annotations()?;
        match self.kind() {
            Tok::LBrace => return Ok(StmtKind::Block(self.block(annotations)?)),
            Tok::For => return self.for_stmt(annotations),
            Tok::Const => return Ok(StmtKind::Const(self.const_decl(annotations, start)?)),
            _ => {}
        }
        if self.at_declaration() {
            return self.declaration_stmt(annotations, start);
        }
        if !annotations.is_empty() {
            return self.fail("annotations belong to a declaration, a block or a `for` loop; none follows");
        }
        match self.kind() {
            Tok::Semi => {
                self.bump();
                Ok(StmtKind::Empty)
            }
            Tok::If => self.if_stmt(),
            Tok::Switch => self.switch_stmt(),
            Tok::Return => {
                self.bump();
                let value = if matches!(self.kind(), Tok::Semi | Tok::RBrace) { None } else { Some(self.expr()?) };
                self.expect(Tok::Semi)?;
                Ok(StmtKind::Return(value))
            }
            Tok::Break => self.keyword_stmt(StmtKind::Break),
            Tok::Continue => self.keyword_stmt(StmtKind::Continue),
            Tok::Exit => self.keyword_stmt(StmtKind::Exit),
            Tok::Action | Tok::Table | Tok::State | Tok::Transition if self.is_misplaced() => self.misplaced(),
            _ => {
                let stmt = self.assign_or_call()?;
                self.expect(Tok::Semi)?;
                Ok(stmt)
            }
        }
    }

    fn keyword_stmt(&mut self, kind: StmtKind) -> Parse<StmtKind> {
        self.bump();
        self.expect(Tok::Semi)?;
        Ok(kind)
    }

    /// Whether the keyword here is one that begins a declaration of another place, rather than a name.
    pub fn is_misplaced(&self) -> bool {
        !self.is(Tok::State) || (self.is_name_at(1) && self.kind_at(2) == Tok::LBrace)
    }

    /// Fails with where the declaration here belongs.
    pub fn misplaced<T>(&mut self) -> Parse<T> {
        let (what, help) = match self.kind() {
            Tok::Transition => ("a transition", "it belongs at the end of a parser state"),
            Tok::State => ("a parser state", "it belongs in a parser, next to the other states"),
            Tok::Table => ("a table", "declare it in the control, in front of `apply`"),
            _ => ("an action", "declare it in the control, in front of `apply`"),
        };
        let diagnostic = Diagnostic::error("syntax", self.span(), format!("{what} cannot stand here"));
        self.fail_with(diagnostic.help(help))
    }

    /// Whether a variable, an instance or a direct application begins here, as opposed to an assignment or call. Two
    /// names in a row are a declaration too, with a type that is unknown.
    fn at_declaration(&self) -> bool {
        if self.at_type() {
            return !(self.is(Tok::Error) && self.kind_at(1) == Tok::Dot);
        }
        self.is(Tok::Ident) && self.is_name_at(1)
    }

    fn declaration_stmt(&mut self, annotations: Annotations, start: Span) -> Parse<StmtKind> {
        let declared = self.var_or_instance(annotations, start)?;
        match declared {
            Declared::Var(mut var) => {
                self.expect(Tok::Semi)?;
                var.span = self.since(start);
                Ok(StmtKind::Var(var))
            }
            Declared::Instance(instance) => Ok(StmtKind::Instance(instance)),
            Declared::Expr(expr) => {
                let stmt = self.assign_or_call_from(expr)?;
                self.expect(Tok::Semi)?;
                Ok(stmt)
            }
        }
    }

    /// What begins with a type: `T x`, `T x = e` (both without `;`), `T(args) x;`, or an expression.
    fn var_or_instance(&mut self, annotations: Annotations, start: Span) -> Parse<Declared> {
        let ty = self.ty()?;
        match self.kind() {
            Tok::Dot => {
                let base = self.type_in_expr(ty)?;
                return Ok(Declared::Expr(self.postfix(base, true)?));
            }
            Tok::LParen => return Ok(Declared::Instance(self.instance_decl(annotations, ty, start)?)),
            _ => {}
        }
        Ok(Declared::Var(self.var_decl(annotations, ty, start)?))
    }

    /// The rest of a variable's declaration after its type, without `;`.
    pub fn var_decl(&mut self, annotations: Annotations, ty: Type, start: Span) -> Parse<VarDecl> {
        let (ty, name) = self.declarator(ty)?;
        let init = if self.eat(Tok::Assign) { Some(self.expr()?) } else { None };
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(VarDecl { annotations, ty, name, init, span: self.since(start) })
    }

    /// `const T x = e;`
    pub fn const_decl(&mut self, annotations: Annotations, start: Span) -> Parse<ConstDecl> {
        self.expect(Tok::Const)?;
        let ty = self.ty()?;
        let (ty, name) = self.declarator(ty)?;
        if !self.is(Tok::Assign) {
            let message = format!("expected `=`, found {}", self.token().describe());
            let diagnostic = Diagnostic::error("syntax", self.span(), message);
            return self.fail_with(diagnostic.help(format!("give the constant a value: `const ... {name} = value;`")));
        }
        self.bump();
        let value = self.expr()?;
        self.expect(Tok::Semi)?;
        self.scopes.declare(&name.name, NameKind::Value);
        Ok(ConstDecl { annotations, ty, name, value, span: self.since(start) })
    }

    /// An assignment or call, without `;`.
    fn assign_or_call(&mut self) -> Parse<StmtKind> {
        let first = self.primary()?;
        let target = self.postfix(first, true)?;
        self.assign_or_call_from(target)
    }

    fn assign_or_call_from(&mut self, target: Expr) -> Parse<StmtKind> {
        let Some((op, tokens)) = self.assign_operator() else { return self.call_stmt(target) };
        if !is_lvalue(&target) {
            let diagnostic = Diagnostic::error("syntax", target.span, "this cannot be assigned to");
            return self.fail_with(diagnostic.help("the left side is a variable, field, element or slice"));
        }
        let mut op_span = self.bump();
        for _ in 1..tokens {
            op_span = op_span.to(self.bump());
        }
        let value = self.expr()?;
        Ok(StmtKind::Assign { target, op, op_span, value })
    }

    /// The `=` or `op=` here, and how many tokens it is.
    fn assign_operator(&self) -> Option<(Option<BinaryOp>, usize)> {
        let op = match self.kind() {
            Tok::Assign => return Some((None, 1)),
            Tok::PlusAssign => BinaryOp::Add,
            Tok::MinusAssign => BinaryOp::Sub,
            Tok::StarAssign => BinaryOp::Mul,
            Tok::SlashAssign => BinaryOp::Div,
            Tok::PercentAssign => BinaryOp::Mod,
            Tok::PlusSatAssign => BinaryOp::AddSat,
            Tok::MinusSatAssign => BinaryOp::SubSat,
            Tok::AmpAssign => BinaryOp::BitAnd,
            Tok::BarAssign => BinaryOp::BitOr,
            Tok::CaretAssign => BinaryOp::BitXor,
            Tok::ShlAssign => BinaryOp::Shl,
            Tok::Gt if self.kind_at(1) == Tok::Ge && !self.peek_at(1).spaced => return Some((Some(BinaryOp::Shr), 2)),
            _ => return None,
        };
        Some((Some(op), 1))
    }

    fn call_stmt(&mut self, expr: Expr) -> Parse<StmtKind> {
        let unknown_type = |callee: &Expr| match &callee.kind {
            ExprKind::Name(path) => Some(path.name.clone()),
            _ => None,
        };
        match expr.kind {
            ExprKind::Call { callee, type_args, args } => {
                if self.is_name_at(0)
                    && let Some(name) = unknown_type(&callee)
                {
                    return self.fail_unknown_type(&name);
                }
                if !is_lvalue(&callee) {
                    let message = "the result of a call cannot be called on as a statement";
                    let diagnostic = Diagnostic::error("syntax", expr.span, message);
                    return self.fail_with(diagnostic.help("assign the first call's result to a variable"));
                }
                Ok(call_kind(expr.span, *callee, type_args, args))
            }
            ExprKind::Error => Err(Failed),
            _ => {
                let message = format!("expected `=` or a call, found {}", self.token().describe());
                let mut diagnostic = Diagnostic::error("syntax", self.span(), message);
                if self.is(Tok::EqEq) {
                    diagnostic = diagnostic.help("`==` compares; `=` assigns");
                } else {
                    diagnostic = diagnostic.label(expr.span, "an expression alone is no statement");
                }
                self.fail_with(diagnostic)
            }
        }
    }

    fn if_stmt(&mut self) -> Parse<StmtKind> {
        self.expect(Tok::If)?;
        self.expect(Tok::LParen)?;
        let condition = self.expr()?;
        self.expect(Tok::RParen)?;
        let then_branch = Box::new(self.stmt()?);
        let else_branch = if self.eat(Tok::Else) { Some(Box::new(self.stmt()?)) } else { None };
        Ok(StmtKind::If { condition, then_branch, else_branch })
    }

    fn switch_stmt(&mut self) -> Parse<StmtKind> {
        self.expect(Tok::Switch)?;
        self.expect(Tok::LParen)?;
        let subject = self.expr()?;
        self.expect(Tok::RParen)?;
        let cases = self.braced(Self::switch_case)?;
        Ok(StmtKind::Switch { subject, cases })
    }

    fn switch_case(&mut self) -> Parse<SwitchCase> {
        let start = self.span();
        let label = match self.kind() {
            Tok::Default => Expr { kind: ExprKind::Default, span: self.bump() },
            Tok::LBrace => return self.fail_expected("a case label"),
            _ => self.expr()?,
        };
        self.expect(Tok::Colon)?;
        let block = if matches!(self.kind(), Tok::LBrace | Tok::At) {
            let annotations = self.annotations()?;
            Some(self.block(annotations)?)
        } else {
            None
        };
        Ok(SwitchCase { label, block, span: self.since(start) })
    }

    fn for_stmt(&mut self, annotations: Annotations) -> Parse<StmtKind> {
        self.expect(Tok::For)?;
        self.expect(Tok::LParen)?;
        let scope = self.scopes.depth();
        self.scopes.push();
        let kind = if self.at_for_in() {
            self.for_in(annotations).map(|stmt| StmtKind::ForIn(Box::new(stmt)))
        } else {
            self.for_loop(annotations).map(|stmt| StmtKind::For(Box::new(stmt)))
        };
        self.scopes.truncate(scope);
        kind
    }

    /// Whether `in` comes before the first `;`, `,` or `=` of the parentheses.
    fn at_for_in(&self) -> bool {
        let mut depth = 0usize;
        let mut ahead = 0;
        loop {
            match self.kind_at(ahead) {
                Tok::In if depth == 0 => return true,
                Tok::Semi | Tok::Assign | Tok::LBrace | Tok::RBrace | Tok::Eof if depth == 0 => return false,
                Tok::Eof => return false,
                Tok::LParen => depth += 1,
                Tok::RParen if depth == 0 => return false,
                Tok::RParen => depth -= 1,
                _ => {}
            }
            ahead += 1;
        }
    }

    fn for_in(&mut self, annotations: Annotations) -> Parse<ForInStmt> {
        let var_annotations = self.annotations()?;
        if self.is_name_at(0) && self.kind_at(1) == Tok::In {
            let name = self.token().text.clone();
            let message = format!("the type of `{name}` is missing");
            let diagnostic = Diagnostic::error("syntax", self.peek_at(1).span, message);
            return self.fail_with(diagnostic.help(format!("write `for (bit<8> {name} in ...)`")));
        }
        let ty = self.ty()?;
        let var = self.name()?;
        self.expect(Tok::In)?;
        let first = self.expr()?;
        let collection = self.mask_or_range(first)?;
        self.expect(Tok::RParen)?;
        self.scopes.declare(&var.name, NameKind::Value);
        let body = self.stmt()?;
        Ok(ForInStmt { annotations, var_annotations, ty, var, collection, body })
    }

    fn for_loop(&mut self, annotations: Annotations) -> Parse<ForStmt> {
        let init = self.for_parts(Tok::Semi)?;
        if self.is(Tok::Semi) {
            let diagnostic = Diagnostic::error("syntax", self.span(), "the loop's condition is missing");
            return self.fail_with(diagnostic.help("write `true` if `break` ends the loop"));
        }
        let condition = self.expr()?;
        self.expect(Tok::Semi)?;
        let update = self.for_parts(Tok::RParen)?;
        let body = self.stmt()?;
        Ok(ForStmt { annotations, init, condition, update, body })
    }

    /// Assignments, calls and (before the first `;`) variables with commas between them, up to `close`.
    fn for_parts(&mut self, close: Tok) -> Parse<Vec<Stmt>> {
        self.comma_list(close, false, |p| {
            let start = p.span();
            let annotations = p.annotations()?;
            let kind = if close == Tok::Semi && p.at_declaration() {
                match p.var_or_instance(annotations, start)? {
                    Declared::Var(var) => StmtKind::Var(var),
                    Declared::Instance(instance) => StmtKind::Instance(instance),
                    Declared::Expr(expr) => p.assign_or_call_from(expr)?,
                }
            } else {
                p.assign_or_call()?
            };
            Ok(Stmt { kind, span: p.since(start) })
        })
    }
}

/// A call statement, or the direct application of a type.
fn call_kind(span: Span, callee: Expr, type_args: Vec<Type>, args: Vec<Arg>) -> StmtKind {
    match callee.kind {
        ExprKind::Member { base, member } if type_args.is_empty() && &*member.name == "apply" => match base.kind {
            ExprKind::Type(ty) => StmtKind::DirectApply { ty: *ty, args },
            kind => {
                let base = Box::new(Expr { kind, span: base.span });
                let callee = Expr { kind: ExprKind::Member { base, member }, span: callee.span };
                StmtKind::Call(Expr { kind: ExprKind::Call { callee: Box::new(callee), type_args, args }, span })
            }
        },
        kind => {
            let callee = Box::new(Expr { kind, span: callee.span });
            StmtKind::Call(Expr { kind: ExprKind::Call { callee, type_args, args }, span })
        }
    }
}

/// Whether the grammar lets the expression stand in front of `=` or a call's arguments.
fn is_lvalue(expr: &Expr) -> bool {
    let mut expr = expr;
    loop {
        expr = match &expr.kind {
            ExprKind::Name(_) | ExprKind::This | ExprKind::Type(_) => return true,
            ExprKind::Member { base, .. }
            | ExprKind::Index { base, .. }
            | ExprKind::Slice { base, .. }
            | ExprKind::PlusSlice { base, .. } => base,
            _ => return false,
        };
    }
}
