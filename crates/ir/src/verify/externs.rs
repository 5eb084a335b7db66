//! Extern objects, and what extern functions take.

use super::{Problem, Verifier};
use crate::body::{Arg, Body};
use crate::declared::DataType;
use crate::entity::ExternId;
use crate::externs::{ExternFn, ExternKind};
use crate::pipeline::Arch;
use crate::types::{Const, Type};

/// What a function takes: `v` a scalar, `V` the leaves of an aggregate, `s` a string, `r` variables, `t` a table, `a` an action.
struct Signature {
    object: Option<&'static str>,
    shapes: &'static [&'static str],
    arch: Option<Arch>,
}

fn signature(func: ExternFn) -> Signature {
    use ExternFn::*;
    let method = |object, shapes| Signature { object: Some(object), shapes, arch: None };
    let both = |shapes| Signature { object: None, shapes, arch: None };
    let v1model = |shapes| Signature { object: None, shapes, arch: Some(Arch::V1Model) };
    let pna = |shapes| Signature { object: None, shapes, arch: Some(Arch::Pna) };
    match func {
        CounterCount => method("counter", &["v", "vv"]),
        DirectCounterCount => method("direct counter", &["t", "tv"]),
        MeterExecute => method("meter", &["v", "vv"]),
        DirectMeterExecute => method("direct meter", &["t", "tv", "tvv"]),
        RegisterRead => method("register", &["v"]),
        RegisterWrite => method("register", &["vV"]),
        HashGet => method("hash", &["V", "vVv"]),
        ChecksumClear | ChecksumGet => method("checksum", &[""]),
        ChecksumUpdate => method("checksum", &["V"]),
        InternetChecksumClear | InternetChecksumGet | InternetChecksumGetState => method("internet checksum", &[""]),
        InternetChecksumAdd | InternetChecksumSubtract => method("internet checksum", &["V"]),
        InternetChecksumSetState => method("internet checksum", &["v"]),
        Checksum16Get => method("checksum16", &["V"]),
        RandomRead => method("random", &[""]),
        DigestPack => method("digest", &["V"]),
        Random => v1model(&["vv"]),
        Hash => v1model(&["svVv"]),
        MarkToDrop => v1model(&[""]),
        VerifyChecksum | UpdateChecksum | VerifyChecksumWithPayload | UpdateChecksumWithPayload => v1model(&["vVvs"]),
        Clone => v1model(&["svr"]),
        Resubmit | Recirculate => v1model(&["r"]),
        Truncate => both(&["v"]),
        Assert | Assume => both(&["vs"]),
        LogMsg => both(&["s", "sV"]),
        DropPacket | PnaRecirculate | AllocateFlowId => pna(&[""]),
        SendToPort | IsHostPort | IsNetPort => pna(&["v"]),
        MirrorPacket => pna(&["vv"]),
        AddEntry => pna(&["taVv"]),
        SetEntryExpireTime => pna(&["tv"]),
        RestartExpireTimer => pna(&["t"]),
    }
}

fn kind_name(kind: &ExternKind) -> &'static str {
    match kind {
        ExternKind::Counter { .. } => "counter",
        ExternKind::DirectCounter { .. } => "direct counter",
        ExternKind::Meter { .. } => "meter",
        ExternKind::DirectMeter { .. } => "direct meter",
        ExternKind::Register { .. } => "register",
        ExternKind::ActionProfile { .. } => "action profile",
        ExternKind::ActionSelector { .. } => "action selector",
        ExternKind::Hash { .. } => "hash",
        ExternKind::Checksum { .. } => "checksum",
        ExternKind::InternetChecksum => "internet checksum",
        ExternKind::Checksum16 => "checksum16",
        ExternKind::Random { .. } => "random",
        ExternKind::Digest { .. } => "digest",
    }
}

fn shape(arg: &Arg) -> char {
    match arg {
        Arg::Value(_) => 'v',
        Arg::Values(_) => 'V',
        Arg::Str(_) => 's',
        Arg::Vars(_) => 'r',
        Arg::Table(_) => 't',
        Arg::Action(_) => 'a',
    }
}

/// A shape in words.
fn describe(shape: &str) -> String {
    let words = shape.chars().map(|c| match c {
        'v' => "value",
        'V' => "leaves",
        's' => "string",
        'r' => "variables",
        't' => "table",
        _ => "action",
    });
    format!("({})", words.collect::<Vec<_>>().join(", "))
}

impl Verifier<'_> {
    pub(super) fn externs(&mut self) {
        let p = self.p;
        for object in p.externs.values() {
            let name = &object.preamble.name;
            match &object.kind {
                ExternKind::Register { elem, initial, data_type, .. } => {
                    elem.iter().for_each(|t| self.ty("extern", name, *t));
                    self.register_initial(name, elem, initial);
                    self.data_type(name, data_type);
                }
                ExternKind::Hash { output, .. } | ExternKind::Checksum { output, .. } => {
                    self.ty("extern", name, *output);
                }
                ExternKind::Random { min, max } => {
                    for bound in [min, max] {
                        if let Some(problem) = self.const_problem(bound) {
                            self.declaration("extern", name, problem);
                        }
                    }
                    if min.ty != max.ty {
                        let what = "the upper bound".to_string();
                        self.declaration("extern", name, Problem::Type { what, expected: min.ty, found: max.ty });
                    }
                }
                ExternKind::Digest { data_type, fields } => {
                    fields.iter().for_each(|t| self.ty("extern", name, *t));
                    self.data_type(name, data_type);
                }
                _ => {}
            }
        }
    }

    fn register_initial(&mut self, name: &str, elem: &[Type], initial: &[Const]) {
        if !initial.is_empty() && initial.len() != elem.len() {
            let what = "initial values".to_string();
            self.declaration("extern", name, Problem::Count { what, expected: elem.len(), found: initial.len() });
        }
        for (value, ty) in initial.iter().zip(elem) {
            if let Some(problem) = self.const_problem(value) {
                self.declaration("extern", name, problem);
            }
            if value.ty != *ty {
                let what = "an initial value".to_string();
                self.declaration("extern", name, Problem::Type { what, expected: *ty, found: value.ty });
            }
        }
    }

    /// Tuples nest as deep as a program's; what walks them does so by recursion.
    fn data_type(&mut self, name: &str, ty: &DataType) {
        let mut stack = vec![(ty, 0)];
        while let Some((ty, depth)) = stack.pop() {
            if depth > 32 {
                self.declaration("extern", name, Problem::TooDeep);
                return;
            }
            if let DataType::Tuple(members) = ty {
                stack.extend(members.iter().map(|m| (m, depth + 1)));
            }
        }
    }

    /// What is wrong with a call; types of results are checked elsewhere.
    pub(super) fn call_problems(
        &self,
        func: ExternFn,
        object: Option<ExternId>,
        args: &[Arg],
        body: &Body,
    ) -> Vec<Problem> {
        let signature = signature(func);
        let mut problems = Vec::new();
        if let Some(arch) = signature.arch.filter(|a| *a != self.p.arch) {
            let place = if arch == Arch::Pna { "PNA" } else { "v1model" };
            problems.push(Problem::WrongPlace { what: format!("`{}`", func.name()), place });
        }
        let bad_object = |expected: String| Problem::Object { func: func.name(), expected };
        match (signature.object, object) {
            (Some(kind), None) => problems.push(bad_object(format!("is called without its {kind}"))),
            (None, Some(_)) => problems.push(bad_object("is no method, but has an object".into())),
            (Some(kind), Some(object)) => match self.p.externs.get(object) {
                None => problems.push(Problem::NoSuch(object.to_string())),
                Some(o) if kind_name(&o.kind) != kind => {
                    problems.push(bad_object(format!("is a method of a {kind}, not of a {}", kind_name(&o.kind))));
                }
                Some(_) => {}
            },
            (None, None) => {}
        }
        let found: String = args.iter().map(shape).collect();
        if !signature.shapes.contains(&found.as_str()) {
            let expected = signature.shapes.iter().map(|s| describe(s)).collect::<Vec<_>>().join(" or ");
            let found = describe(&found).trim_matches(['(', ')']).to_string();
            problems.push(Problem::Args { func: func.name(), expected, found });
            return problems;
        }
        self.arg_entities(args, &mut problems);
        self.arg_types(func, object, args, body, &mut problems);
        problems
    }

    fn arg_entities(&self, args: &[Arg], problems: &mut Vec<Problem>) {
        for arg in args {
            match arg {
                Arg::Vars(vars) => {
                    let missing = vars.iter().filter(|v| self.p.vars.get(**v).is_none());
                    problems.extend(missing.map(|v| Problem::NoSuch(v.to_string())));
                }
                Arg::Table(t) if self.p.tables.get(*t).is_none() => problems.push(Problem::NoSuch(t.to_string())),
                Arg::Action(a) if self.p.actions.get(*a).is_none() => problems.push(Problem::NoSuch(a.to_string())),
                _ => {}
            }
        }
    }

    fn arg_types(
        &self,
        func: ExternFn,
        object: Option<ExternId>,
        args: &[Arg],
        body: &Body,
        problems: &mut Vec<Problem>,
    ) {
        use ExternFn::*;
        let mut leaves = |what: &str, at: usize, types: &[Type]| {
            let Some(Arg::Values(values)) = args.get(at) else { return };
            if values.len() != types.len() {
                let what = what.to_string();
                problems.push(Problem::Count { what, expected: types.len(), found: values.len() });
            }
            for (value, expected) in values.iter().zip(types) {
                let found = body.value_type(*value);
                if found != *expected {
                    problems.push(Problem::Type { what: value.to_string(), expected: *expected, found });
                }
            }
        };
        match func {
            RegisterWrite => {
                let kind = object.and_then(|o| self.p.externs.get(o)).map(|o| &o.kind);
                if let Some(ExternKind::Register { elem, .. }) = kind {
                    leaves("leaves of the register", 1, elem);
                }
            }
            AddEntry => {
                if let Some(Arg::Action(action)) = args.get(1)
                    && let Some(action) = self.p.actions.get(*action)
                {
                    let types: Vec<Type> = action.params.iter().map(|p| p.ty).collect();
                    leaves("parameters of the action", 2, &types);
                }
            }
            _ => {}
        }
        // The first scalar that has to have one type; the others are of the program's own types.
        let fixed = match func {
            VerifyChecksum
            | UpdateChecksum
            | VerifyChecksumWithPayload
            | UpdateChecksumWithPayload
            | Assert
            | Assume => Some(Type::Bool),
            InternetChecksumSetState => Some(Type::Bit(16)),
            _ => None,
        };
        if let (Some(expected), Some(Arg::Value(v))) = (fixed, args.first()) {
            let found = body.value_type(*v);
            if found != expected {
                problems.push(Problem::Type { what: v.to_string(), expected, found });
            }
        }
    }
}
