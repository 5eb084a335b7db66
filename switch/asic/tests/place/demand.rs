//! Tests the demand extracted from programs: tables, dependencies, exclusivity, fields, parser.

use crate::{compile, corpus, gateway};
use asic::demand::{AttachedKind, DemandError, Dependency, DependencyKind, MemoryMatchKind, ResourceDemand};
use asic::place::{Objective, PipePath, check_placement, heuristic};
use asic::target::ChipTarget;
use asic::transform::TableSizes;

fn tofino() -> ChipTarget {
    ChipTarget::shipped("tofino1").expect("a shipped target")
}

fn demand() -> ResourceDemand {
    ResourceDemand::from_pipeline(&gateway(), &TableSizes::new()).expect("the gateway has a demand")
}

fn index(program: &ResourceDemand, suffix: &str) -> usize {
    let is = |n: &usize| program.tables[*n].name == suffix || program.tables[*n].name.ends_with(&format!(".{suffix}"));
    let found: Vec<usize> = (0..program.tables.len()).filter(is).collect();
    assert_eq!(found.len(), 1, "{suffix} names one table");
    found[0]
}

/// Returns the minimum number of stages from `first` to `second` by any chain of dependencies; none
/// if they are unordered.
fn apart(program: &ResourceDemand, first: usize, second: usize) -> Option<u32> {
    let mut far = vec![None; program.tables.len()];
    far[first] = Some(0);
    for n in 0..program.tables.len() {
        let from = |d: &Dependency| far[d.first].map(|f: u32| f + d.kind.min_stage_distance());
        let there = program.dependencies.iter().filter(|d| d.second == n).filter_map(from).max();
        far[n] = far[n].max(there);
    }
    far[second]
}

#[test]
fn the_gateways_tables_are_as_the_program_declares_them() {
    let program = demand();
    let table = |suffix: &str| &program.tables[index(&program, suffix)];
    let tenant = table("tenancy.tenant");
    assert_eq!(
        (tenant.kind, tenant.key_bits(), tenant.data_bits(), tenant.entries),
        (MemoryMatchKind::Exact, 24, 89, 1 << 20)
    );
    assert_eq!(tenant.keys[0].name, "vni");
    assert_eq!(tenant.attached.len(), 1);
    assert_eq!((tenant.attached[0].kind, tenant.attached[0].size), (AttachedKind::Counter, Some(1 << 20)));
    let route = table("route_v6");
    let exact: Vec<bool> = route.keys.iter().map(|k| k.exact).collect();
    assert_eq!((route.kind, route.key_bits(), exact), (MemoryMatchKind::Ternary, 152, vec![true, false]));
    assert_eq!(route.data_bits(), 68);
    assert_eq!(table("acl_in.v4").keys.iter().filter(|k| k.range).count(), 2);
    let identity = table("gateway_identity");
    assert_eq!((identity.kind, identity.data_bits(), identity.entries), (MemoryMatchKind::None, 208, 1));
    assert_eq!(program.tables.iter().filter(|t| t.id.is_some()).count(), 27);
}

#[test]
fn the_gateways_tables_keep_their_order() {
    let program = demand();
    let at = |suffix: &str| index(&program, suffix);
    let direct = |first: &str, second: &str| {
        let (first, second) = (at(first), at(second));
        program
            .dependencies
            .iter()
            .find(|d| (d.first, d.second) == (first, second))
            .map(|d| (d.kind, d.through.as_str()))
    };
    assert_eq!(direct("tenancy.tenant", "vpc_source_v4"), Some((DependencyKind::Match, "meta.vpc")));
    assert_eq!(direct("policy_route_v6", "route_v6"), Some((DependencyKind::Match, "meta.instance")));
    assert!(apart(&program, at("route_v4"), at("vm_nc_v4")) >= Some(1), "by the VNI");
    assert!(apart(&program, at("vm_nc_v6"), at("underlay_route_v4")) >= Some(1), "by the outer destination");
    assert!(apart(&program, at("underlay_route_v4"), at("next_hop")) >= Some(1), "route, next hop");
    // The lists match on fields of the received packet; only the choice of the second one depends
    // on the route.
    assert!(apart(&program, at("tenancy.tenant"), at("acl_out.v4")) >= Some(1));
    assert_eq!(apart(&program, at("route_v4"), at("route_v6")), None);
    assert_eq!(apart(&program, at("acl_out.v4"), at("acl_out.v6")), None);
}

#[test]
fn a_packet_meets_one_of_the_families() {
    let program = demand();
    let pair = |a: &str, b: &str| {
        let (a, b) = (index(&program, a), index(&program, b));
        program.exclusive.contains(&(a.min(b), a.max(b)))
    };
    assert!(pair("route_v4", "route_v6"));
    assert!(pair("remote_end.remote", "vm_nc_v4"));
    assert!(!pair("tenancy.tenant", "route_v4"));
    assert!(!pair("underlay_route_v4", "next_hop"));
}

#[test]
fn counters_of_many_places_are_counted_in_one() {
    let program = demand();
    for name in ["drops", "punts"] {
        let table = &program.tables[index(&program, name)];
        assert_eq!((table.kind, table.id, table.attached.len()), (MemoryMatchKind::None, None, 1), "{name}");
        assert!(program.notes.iter().any(|n| n.starts_with(&format!("{name}: "))), "{name}");
        let at = index(&program, name);
        assert!(program.dependencies.iter().any(|d| d.second == at && d.kind == DependencyKind::Match));
        // A table that counts precedes it; also the last drop of all.
        assert!(apart(&program, index(&program, "acl_in.v6"), index(&program, "drops")) >= Some(1));
    }
}

#[test]
fn copies_that_inlining_left_are_no_work() {
    let program = demand();
    // The access lists get all metadata as a copy, and return it: the program's own names remain.
    let of_copies = program.fields.iter().filter(|f| f.name.starts_with("gateway.acl_out.meta."));
    assert_eq!(of_copies.count(), 0);
    let scope = program.fields.iter().find(|f| f.name == "meta.scope").expect("the scope is carried");
    assert_eq!(scope.bits, 8);
    assert_eq!(scope.written, vec![index(&program, "route_v4"), index(&program, "route_v6")]);
}

#[test]
fn fields_are_used_or_carried() {
    let program = demand();
    let field =
        |name: &str| program.fields.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} is carried"));
    assert!(field("hdr.inner_ipv4.destination").used);
    assert!(!field("hdr.inner_ipv4.identification").used, "only checksums read it, in parser and deparser");
    assert_eq!(field("hdr.inner_ipv4.identification").header.as_deref(), Some("hdr.inner_ipv4"));
    assert!(field("meta.l4_source").parsed && !field("meta.l4_source").emitted);
    assert!(field("hdr.inner_ipv6.isValid()").is_validity());
    assert!(program.ports.contains(&index(&program, "next_hop")), "it decides the port");
}

#[test]
fn the_parser_has_its_states() {
    let program = demand();
    let start = &program.parser[0];
    assert_eq!((start.name.as_str(), start.extracts, start.selects), ("start", 112, 16));
    let next: Vec<&str> = start.next.iter().map(|n| program.parser[*n].name.as_str()).collect();
    assert_eq!(next, ["outer_ipv4", "outer_ipv6", "kind_arp", "kind_link_protocol", "outer_vlan"]);
    assert_eq!(program.parser.len(), 107);
}

#[test]
fn sizes_are_given_by_name_or_refused() {
    let pipeline = gateway();
    let sizes = TableSizes::from([
        ("tenant".to_owned(), 5000),
        ("gateway.acl_in.v4".to_owned(), 70),
        ("vpc_received".to_owned(), 4096),
    ]);
    let program = ResourceDemand::from_pipeline(&pipeline, &sizes).expect("all three exist");
    assert_eq!(program.tables[index(&program, "tenancy.tenant")].entries, 5000);
    assert_eq!(program.tables[index(&program, "acl_in.v4")].entries, 70);
    assert_eq!(program.tables[index(&program, "tenancy.tenant")].attached[0].size, Some(4096));
    for wrong in ["tenants", "v4"] {
        let refused = ResourceDemand::from_pipeline(&pipeline, &TableSizes::from([(wrong.to_owned(), 1)]));
        assert!(matches!(refused, Err(DemandError::UnknownTable { name, .. }) if name == wrong));
    }
}

#[test]
fn a_register_is_read_and_written_in_one_step() {
    for (file, note) in [("pna/register.p4", 0), ("v1model/register.p4", 0)] {
        let path = crate::root().join("tests/corpus").join(file);
        let program =
            ResourceDemand::from_pipeline(&compile(&path).expect("it compiles"), &TableSizes::new()).expect("a demand");
        let holders = program.tables.iter().filter(|t| t.attached.iter().any(|a| a.kind == AttachedKind::Register));
        assert!(holders.count() > 0, "{file}");
        assert_eq!(program.notes.len(), note, "{file}: {:?}", program.notes);
    }
}

#[test]
fn every_program_of_the_corpus_has_a_demand() {
    let mut seen = 0;
    for path in corpus() {
        let Some(pipeline) = compile(&path) else { continue };
        let program = ResourceDemand::from_pipeline(&pipeline, &TableSizes::new())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let count = program.tables.len();
        let inside = |list: &[usize]| list.iter().all(|n| *n < count);
        let at = path.display();
        assert!(program.dependencies.iter().all(|d| d.first < d.second && d.second < count), "{at}");
        assert!(program.exclusive.iter().all(|(a, b)| a < b && *b < count), "{at}");
        assert!(inside(&program.egress) && inside(&program.ports), "{at}");
        assert!(program.fields.iter().all(|f| inside(&f.written) && inside(&f.read) && f.bits > 0), "{at}");
        assert!(program.parser.iter().all(|s| s.next.iter().all(|n| *n < program.parser.len())), "{at}");
        let applied = program.tables.iter().filter(|t| t.id.is_some()).count();
        assert!(applied <= pipeline.tables.len(), "{at}");
        seen += 1;
    }
    assert!(seen > 80, "only {seen} programs: has the corpus moved?");
}

#[test]
fn steps_run_early_where_nobody_else_looks() {
    let program = demand();
    let writes = |name: &str| program.fields.iter().find(|f| f.name == name).expect("a field").written.clone();
    // The flow's hash has no effect on packets that are dropped before, so it can be computed at
    // once.
    assert!(
        writes("meta.flow_hash").iter().all(|n| program.dependencies.iter().all(|d| d.second != *n || d.first > 0))
    );
    let length = writes("gateway.vxlan_checks.inner_frame");
    assert!(length.iter().any(|n| program.early.contains(n)), "{:?}", program.early);
    // A table that drops may not run early.
    let drops = program.fields.iter().find(|f| f.name == "meta.drop_reason").expect("a field");
    assert!(drops.written.iter().all(|n| !program.early.contains(n)));
    assert!(program.ports.iter().all(|n| !program.early.contains(n)));
}

#[test]
fn egress_is_behind_the_traffic_manager() {
    let mut seen = 0;
    for path in corpus() {
        let Some(pipeline) = compile(&path) else { continue };
        let program = ResourceDemand::from_pipeline(&pipeline, &TableSizes::new()).expect("a demand");
        let Some(first) = program.egress.first() else { continue };
        let placement = heuristic(&tofino(), &program, &PipePath::unfolded(), Objective::Fits);
        let Ok(placement) = placement else { continue };
        assert_eq!(check_placement(&tofino(), &program, &placement), Ok(()), "{}", path.display());
        assert!(placement.tables[*first].pieces.iter().all(|p| p.hop == 1), "{}", path.display());
        seen += 1;
    }
    assert!(seen > 3, "only {seen} programs have egress code");
}
