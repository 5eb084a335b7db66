//! Architectures: which object plays which part, and what storage the parts share.

use super::frame::{Binding, Context};
use super::known::{Known, ObjectId, Package};
use super::lowering::{Lower, Res};
use super::place::Place;
use super::shape::Shape;
use super::storage::Storage;
use crate::architectures;
use crate::diag::Diagnostic;
use crate::hir::{self, Constructor, Ty};
use crate::span::{FileId, Span};
use ir::{Arch, BodyBuilder, Const, Control, ControlKind, Loc, Type, VarId, VarKind};
use std::rc::Rc;

/// What a block of PNA reads about a packet.
struct PnaInput {
    place: Place,
    recirculated: Option<Recirculated>,
}

/// In programs of three blocks: the flag that a packet has been through the main block before, and the pass number that
/// engines set.
#[derive(Clone, Copy)]
struct Recirculated {
    pass: VarId,
    flag: VarId,
}

/// The blocks of v1model's `V1Switch`.
const V1MODEL_BLOCKS: [&str; 6] = ["p", "vr", "ig", "eg", "ck", "dep"];
/// The blocks of PNA's `PNA_NIC`, today's and those of its older interface.
const PNA_BLOCKS: [&str; 3] = ["main_parser", "main_control", "main_deparser"];
const PNA_BLOCKS_WITH_PRE: [&str; 4] = ["main_parser", "pre_control", "main_control", "main_deparser"];

/// The type of PNA's pass number.
const PASS_NUMBER: Type = Type::Bit(3);

impl Lower<'_> {
    /// Lowers the whole program.
    pub(super) fn program(&mut self) -> Res<()> {
        let Some(main) = self.hir.main else {
            let start = Span::new(FileId(0), 0, 0);
            return self.unsupported(start, "a program without an instance `main` of an architecture's package");
        };
        let decl = &self.hir.instances[main.index()];
        let package = match decl.construct.what {
            Constructor::Object(id) => &self.hir.objects[id.index()].name,
            Constructor::Extern(id, _) => &self.hir.externs[id.index()].name,
        };
        self.p.arch = match &**package {
            "V1Switch" => Arch::V1Model,
            "PNA_NIC" => Arch::Pna,
            other => {
                let message = format!("not supported: the architecture of {}", architectures::describe_package(other));
                let error = Diagnostic::error(architectures::UNSUPPORTED, decl.construct.span, message);
                return self.report(error.help(architectures::package_help()));
            }
        };
        self.package_info(&decl.annotations);
        self.errors();
        self.reason_names();
        let mut done = Ok(());
        for id in &self.hir.globals {
            if let Constructor::Extern(of, _) = self.hir.instances[id.index()].construct.what
                && self.is_known_extern(of)
            {
                done = done.and(self.instance(*id).map(|_| ()));
            }
        }
        done?;
        let Known::Package(package) = self.instance(main)? else {
            return self.unsupported(decl.span, "a `main` that is not a package");
        };
        self.controller_headers();
        let done = match self.p.arch {
            Arch::V1Model => self.v1model(&package),
            Arch::Pna => self.pna(&package),
        };
        self.declare_called_actions();
        self.warn_of_unused_tables();
        done
    }

    /// Declares the program's errors in its order, so that `error` values keep their numbers.
    fn errors(&mut self) {
        for name in &self.hir.errors {
            self.p.add_error(name);
        }
    }

    /// Keeps the enumerations that name drop and CPU reasons, also when no key or parameter has their type: engines show the names.
    fn reason_names(&mut self) {
        let is_reason = |name: &str| matches!(name, "drop_reason_t" | "cpu_reason_t" | "punt_reason_t");
        for (index, decl) in self.hir.enums.iter().enumerate().filter(|(_, decl)| is_reason(&decl.name)) {
            if decl.underlying.is_some() {
                self.named_enum(hir::EnumId(index as u32));
            }
        }
    }

    /// Refuses a package that another file than ours declares, with other blocks than the architecture has.
    fn check_blocks(&mut self, package: &Package, expected: &[&[&str]]) -> Res<()> {
        if expected.iter().any(|blocks| blocks.len() == package.args.len()) {
            return Ok(());
        }
        let decl = &self.hir.objects[package.decl.index()];
        let names: Vec<&str> = decl.constructor_params.iter().map(|id| &*self.hir.locals[id.index()].name).collect();
        let list = |names: &[&str]| format!("{} ({})", names.len(), names.join(", "));
        let forms: Vec<String> = expected.iter().map(|blocks| list(blocks)).collect();
        let message = format!("not supported: `{}` with the blocks {}", decl.name, names.join(", "));
        let help = format!("Terrace knows it with {}: {}", forms.join(" or "), architectures::DOCS);
        let error =
            Diagnostic::error(architectures::UNSUPPORTED, package.span, message).label(decl.span, "declared here");
        self.report(error.help(help))
    }

    /// The parser or control that argument `n` of the package is.
    fn package_arg(&mut self, package: &Package, n: usize) -> Res<ObjectId> {
        match package.args.get(n) {
            Some(Known::Object(id)) => Ok(*id),
            _ => {
                let decl = &self.hir.objects[package.decl.index()];
                let param = decl.constructor_params.get(n).map(|id| self.hir.locals[id.index()].name.clone());
                let param = param.unwrap_or_else(|| (n + 1).to_string().into());
                self.unsupported(package.span, format_args!("an argument `{param}` that is no parser or control"))
            }
        }
    }

    /// Parameters of an object: name and type.
    fn params(&mut self, id: ObjectId) -> Vec<(hir::LocalId, Ty)> {
        let object = &self.objects[id.index()];
        let subst = Rc::clone(&object.subst);
        let Some(decl) = object.decl else { return Vec::new() };
        let params = self.hir.objects[decl.index()].params.iter();
        params.map(|id| (*id, self.replace(self.hir.locals[id.index()].ty, &subst))).collect()
    }

    /// Storage for parameter `n` of an object, under the name it has there.
    fn shared(&mut self, id: ObjectId, n: usize, storage: Storage) -> Res<(Place, Ty)> {
        match self.params(id).get(n).copied() {
            Some((param, ty)) => {
                let local = self.local(param);
                Ok((self.allocate(&local.name, ty, storage, local.span)?, ty))
            }
            None => self.lacks_parameters(id, n),
        }
    }

    /// Storage for parameter `n` of an object, under another name.
    fn shared_as(&mut self, name: &str, id: ObjectId, n: usize) -> Res<Place> {
        match self.params(id).get(n).copied() {
            Some((param, ty)) => self.allocate(name, ty, Storage::Intrinsic, self.local(param).span),
            None => self.lacks_parameters(id, n),
        }
    }

    fn lacks_parameters<T>(&mut self, id: ObjectId, n: usize) -> Res<T> {
        let decl = self.objects[id.index()].decl.map(|decl| &self.hir.objects[decl.index()]);
        let (name, span) = decl.map_or(("", Span::default()), |decl| (&*decl.name, decl.span));
        self.unsupported(span, format_args!("block `{name}` without a parameter {}", n + 1))
    }

    /// Makes the scalars of architecture metadata known under `prefix`.
    fn intrinsics(&mut self, prefix: &str, place: &Place, id: ObjectId, n: usize) {
        let Some((_, ty)) = self.params(id).get(n).copied() else { return };
        let Shape::Struct(members) = self.shape(ty) else { return };
        for (n, member) in members.iter().enumerate() {
            if let Some(Place::Scalar(var)) = place.part(n) {
                self.p.intrinsics.insert(format!("{prefix}.{}", member.name), *var);
            }
        }
    }

    fn v1model(&mut self, package: &Package) -> Res<()> {
        self.check_blocks(package, &[&V1MODEL_BLOCKS])?;
        let mut parts = Vec::new();
        for n in 0..V1MODEL_BLOCKS.len() {
            parts.push(self.package_arg(package, n)?);
        }
        let [parser, verify, ingress, egress, compute, deparser] = parts[..] else { return Ok(()) };
        let (hdr, _) = self.shared(ingress, 0, Storage::Meta)?;
        let (meta, meta_ty) = self.shared(ingress, 1, Storage::Meta)?;
        let (standard, _) = self.shared(ingress, 2, Storage::Intrinsic)?;
        self.intrinsics("standard_metadata", &standard, ingress, 2);
        self.field_lists(&meta, meta_ty);
        let packet = || Binding::Known(Known::Packet);
        let place = |place: &Place| Binding::Place(place.clone());
        let three = || vec![place(&hdr), place(&meta), place(&standard)];
        let mut all = three();
        all.insert(0, packet());
        let mut done = self.block(ControlKind::Parser, parser, all);
        done = done.and(self.block(ControlKind::VerifyChecksum, verify, vec![place(&hdr), place(&meta)]));
        done = done.and(self.block(ControlKind::Ingress, ingress, three()));
        done = done.and(self.block(ControlKind::Egress, egress, three()));
        done = done.and(self.block(ControlKind::ComputeChecksum, compute, vec![place(&hdr), place(&meta)]));
        done.and(self.block(ControlKind::Deparser, deparser, vec![packet(), place(&hdr)]))
    }

    /// PNA, with the pre control of the older interface or without (`programs/include/pna.p4`).
    fn pna(&mut self, package: &Package) -> Res<()> {
        self.check_blocks(package, &[&PNA_BLOCKS, &PNA_BLOCKS_WITH_PRE])?;
        let has_pre = package.args.len() == PNA_BLOCKS_WITH_PRE.len();
        let main_at = if has_pre { 2 } else { 1 };
        let parser = self.package_arg(package, 0)?;
        let pre = if has_pre { Some(self.package_arg(package, 1)?) } else { None };
        let main = self.package_arg(package, main_at)?;
        let deparser = self.package_arg(package, main_at + 1)?;
        let (hdr, _) = self.shared(main, 0, Storage::Meta)?;
        let (meta, _) = self.shared(main, 1, Storage::Meta)?;
        let istd = self.pna_input("istd", main, 2)?;
        let (ostd, _) = self.shared(main, 3, Storage::Intrinsic)?;
        self.intrinsics("ostd", &ostd, main, 3);
        let parser_istd = self.pna_input("parser_istd", parser, 3)?;
        let packet = || Binding::Known(Known::Packet);
        let place = |place: &Place| Binding::Place(place.clone());
        let mut done = Ok(());
        let parser_args = vec![packet(), place(&hdr), place(&meta), place(&parser_istd.place)];
        done = done.and(self.block_with_pass(ControlKind::MainParser, parser, parser_args, parser_istd.recirculated));
        done = done.and(self.pre_control(pre));
        let main_args = [&hdr, &meta, &istd.place, &ostd].map(place).to_vec();
        done = done.and(self.block_with_pass(ControlKind::MainControl, main, main_args, istd.recirculated));
        let deparser_args = vec![packet(), place(&hdr), place(&meta), place(&ostd)];
        done.and(self.block(ControlKind::MainDeparser, deparser, deparser_args))
    }

    /// The pre control; of a program without one, an empty body, so that engines know one form of PNA.
    fn pre_control(&mut self, pre: Option<ObjectId>) -> Res<()> {
        let Some(pre) = pre else {
            let mut body = BodyBuilder::new();
            body.ret();
            let body = body.finish();
            self.p.controls.push(Control { name: "pre_control".into(), kind: ControlKind::PreControl, body });
            return Ok(());
        };
        let pre_istd = self.shared_as("pre_istd", pre, 2)?;
        let pre_ostd = self.shared_as("pre_ostd", pre, 3)?;
        self.intrinsics("pre_istd", &pre_istd, pre, 2);
        self.intrinsics("pre_ostd", &pre_ostd, pre, 3);
        // Nothing parses for the pre control and nothing reads its results: its data are its own, even of the same types.
        let (pre_hdr, _) = self.shared(pre, 0, Storage::Meta)?;
        let (pre_meta, _) = self.shared(pre, 1, Storage::Meta)?;
        let args = [&pre_hdr, &pre_meta, &pre_istd, &pre_ostd].map(|place| Binding::Place(place.clone()));
        self.block(ControlKind::PreControl, pre, args.to_vec())
    }

    /// The architecture's metadata that a block of PNA reads. Engines set a pass number; a program of three blocks has
    /// `recirculated` in its place, which its blocks begin by making of that.
    fn pna_input(&mut self, prefix: &str, block: ObjectId, n: usize) -> Res<PnaInput> {
        let place = self.shared_as(prefix, block, n)?;
        self.intrinsics(prefix, &place, block, n);
        let Some(flag) = self.p.intrinsics.remove(&format!("{prefix}.recirculated")) else {
            return Ok(PnaInput { place, recirculated: None });
        };
        // The block writes it itself: to the architecture it is nothing.
        self.p.vars[flag].kind = VarKind::Local;
        let name = self.unique(&format!("{prefix}.pass"));
        let pass = self.p.add_var(&name, PASS_NUMBER, VarKind::Intrinsic, Loc::default());
        self.p.intrinsics.insert(format!("{prefix}.pass"), pass);
        Ok(PnaInput { place, recirculated: Some(Recirculated { pass, flag }) })
    }

    /// Lowers one programmable block.
    fn block(&mut self, kind: ControlKind, id: ObjectId, args: Vec<Binding>) -> Res<()> {
        self.block_with_pass(kind, id, args, None)
    }

    /// As `block`; the block begins by making `recirculated` of the pass number.
    fn block_with_pass(
        &mut self,
        kind: ControlKind,
        id: ObjectId,
        args: Vec<Binding>,
        recirculated: Option<Recirculated>,
    ) -> Res<()> {
        let params = self.params(id);
        let object = &self.objects[id.index()];
        let context = Context { this: id, scope: object.scope.clone(), subst: Rc::clone(&object.subst) };
        let decl = object.decl.map(|decl| &self.hir.objects[decl.index()]);
        let (name, span) = decl.map_or(("", Span::default()), |decl| (&*decl.name, decl.span));
        self.b = BodyBuilder::new();
        self.table = None;
        let outer = self.enter(context);
        self.enter_block();
        for ((param, _), arg) in params.into_iter().zip(args) {
            self.bind(param, arg);
        }
        self.at(span);
        if let Some(Recirculated { pass, flag }) = recirculated {
            let pass = self.b.load(&self.p, pass);
            let first = self.b.constant(Const::new(PASS_NUMBER, 0u8));
            let is_first = self.b.eq(pass, first);
            let again = self.b.logical_not(is_first);
            self.b.store(flag, again);
        }
        let done = self.object_body(id, span);
        if !self.b.is_terminated() {
            self.b.ret();
        }
        self.leave_block();
        self.enter(outer);
        let body = std::mem::take(&mut self.b).finish();
        self.p.controls.push(Control { name: name.to_string(), kind, body });
        done.map(|_| ())
    }
}
