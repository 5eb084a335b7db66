//! Architectures: which object plays which part, and what storage the parts share.

use super::constant::Known;
use super::instantiate::{ObjectId, Package};
use super::place::{Place, Storage};
use super::types::Shape;
use super::{Binding, Lower, Res, names};
use crate::hir::{self, Constructor, Ty};
use crate::span::{FileId, Span};
use ir::{Arch, BodyBuilder, Control, ControlKind};
use std::rc::Rc;

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
            other => return self.unsupported(decl.construct.span, format_args!("architecture `{other}`")),
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
        match self.p.arch {
            Arch::V1Model => self.v1model(&package),
            Arch::Pna => self.pna(&package),
        }
    }

    fn package_info(&mut self, annotations: &crate::ast::Annotations) {
        self.p.annotations = annotations.iter().map(names::annotation_text).collect();
        let pairs = names::annotation(annotations, "pkginfo").and_then(|a| a.key_values()).unwrap_or_default();
        let name = pairs.iter().find(|pair| pair.name.as_str() == "name").map(|pair| &pair.value.kind);
        if let Some(crate::ast::ExprKind::Str(name)) = name {
            self.p.name = name.to_string();
        }
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

    /// The object that argument `n` of the package is.
    fn package_arg(&mut self, package: &Package, n: usize) -> Res<ObjectId> {
        match package.args.get(n) {
            Some(Known::Object(id)) => Ok(*id),
            _ => self.unsupported(package.span, format_args!("argument {} of this package", n + 1)),
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
            None => self.unsupported(Span::default(), "a block of the architecture that lacks parameters"),
        }
    }

    /// Storage for parameter `n` of an object, under another name.
    fn shared_as(&mut self, name: &str, id: ObjectId, n: usize) -> Res<Place> {
        match self.params(id).get(n).copied() {
            Some((param, ty)) => self.allocate(name, ty, Storage::Intrinsic, self.local(param).span),
            None => self.unsupported(Span::default(), "a block of the architecture that lacks parameters"),
        }
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
        let mut parts = Vec::new();
        for n in 0..6 {
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

    fn pna(&mut self, package: &Package) -> Res<()> {
        let mut parts = Vec::new();
        for n in 0..4 {
            parts.push(self.package_arg(package, n)?);
        }
        let [parser, pre, main, deparser] = parts[..] else { return Ok(()) };
        let (hdr, _) = self.shared(main, 0, Storage::Meta)?;
        let (meta, _) = self.shared(main, 1, Storage::Meta)?;
        let (istd, _) = self.shared(main, 2, Storage::Intrinsic)?;
        let (ostd, _) = self.shared(main, 3, Storage::Intrinsic)?;
        let parser_istd = self.shared_as("parser_istd", parser, 3)?;
        let pre_istd = self.shared_as("pre_istd", pre, 2)?;
        let pre_ostd = self.shared_as("pre_ostd", pre, 3)?;
        for (prefix, place, object, n) in [
            ("istd", &istd, main, 2),
            ("ostd", &ostd, main, 3),
            ("parser_istd", &parser_istd, parser, 3),
            ("pre_istd", &pre_istd, pre, 2),
            ("pre_ostd", &pre_ostd, pre, 3),
        ] {
            self.intrinsics(prefix, place, object, n);
        }
        // Nothing parses for the pre control and nobody reads what it leaves: its data are its own, even of the same types.
        let (pre_hdr, _) = self.shared(pre, 0, Storage::Meta)?;
        let (pre_meta, _) = self.shared(pre, 1, Storage::Meta)?;
        let packet = || Binding::Known(Known::Packet);
        let places = |places: [&Place; 4]| places.map(|p| Binding::Place(p.clone())).to_vec();
        let mut parser_args = places([&hdr, &meta, &parser_istd, &parser_istd]);
        parser_args.truncate(3);
        parser_args.insert(0, packet());
        let mut deparser_args = places([&hdr, &meta, &ostd, &ostd]);
        deparser_args.truncate(3);
        deparser_args.insert(0, packet());
        let mut done = self.block(ControlKind::MainParser, parser, parser_args);
        done = done.and(self.block(ControlKind::PreControl, pre, places([&pre_hdr, &pre_meta, &pre_istd, &pre_ostd])));
        done = done.and(self.block(ControlKind::MainControl, main, places([&hdr, &meta, &istd, &ostd])));
        done.and(self.block(ControlKind::MainDeparser, deparser, deparser_args))
    }

    /// Lowers one programmable block.
    fn block(&mut self, kind: ControlKind, id: ObjectId, args: Vec<Binding>) -> Res<()> {
        let params = self.params(id);
        let object = &self.objects[id.index()];
        let context = super::call::Context { this: id, scope: object.scope.clone(), subst: Rc::clone(&object.subst) };
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
