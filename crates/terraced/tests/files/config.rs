//! Tests the engines that `engine`, `[cache]`, `[switch]` and `[tiers]` of a configuration select,
//! with the wings and without.

use cache_engines::{CachePlan, HookChoice, XdpPlan};
use flowcache::SegmentCacheKind;
use flowcache::admission::SlowPathBudget;
use flowcache::pacer::MinSlowPathShare;
use node::config::{CheckedConfig, ConfigError};
use node::wings::Wings;
use std::any::Any;
use switch_engines::SwitchPlan;

fn check(text: &str) -> Result<CheckedConfig, Vec<ConfigError>> {
    node::config::check(text, terraced::wings())
}

fn lines(found: Vec<ConfigError>) -> Vec<String> {
    let line = |mistake: ConfigError| format!("{:?} {}", mistake.location.unwrap_or_default(), mistake.message);
    found.into_iter().map(line).collect()
}

fn mistakes(text: &str) -> Vec<String> {
    lines(check(text).err().unwrap_or_default())
}

/// Returns the engine factory of a configuration.
fn configured_factory<T: Any + Clone>(text: &str) -> T {
    let config = check(text).unwrap_or_else(|found| panic!("{found:?}"));
    let plan = (&*config.engine as &dyn Any).downcast_ref::<T>().cloned();
    plan.unwrap_or_else(|| panic!("{:?}", config.engine))
}

#[test]
fn the_cache() {
    let text = "engine = \"interp\"\n[cache]\nkind = \"sub-traversal\"\ntables = 3\nmax_entries = 50\nidle_timeout_ms = 7\nslow_path_max_pps = 1000\ntenant_field = \"meta.vpc\"\n";
    let plan: CachePlan = configured_factory(text);
    assert_eq!((plan.cache.kind, plan.cache.max_segments), (SegmentCacheKind::SubTraversal { tables: 3 }, 50));
    assert_eq!((plan.cache.idle_ns, plan.tenant.as_deref()), (Some(7_000_000), Some("meta.vpc")));
    assert_eq!(plan.cache.slow_path, Some(SlowPathBudget::per_second(1_000)));
    assert_eq!(plan.min_slow_path_share, None);
    let paced = "engine = \"interp\"\n[cache]\nkind = \"adaptive\"\nslow_path_min_cpu_percent = 7\n";
    let plan: CachePlan = configured_factory(paced);
    assert!(plan.min_slow_path_share == Some(MinSlowPathShare { percent: 7 }) && plan.cache.slow_path.is_some());
    assert!(!plan.is_rewrite_cache);
    let rewrites = "[cache]\nkind = \"rewrites\"\nmax_entries = 50\n";
    let plan: CachePlan = configured_factory(rewrites);
    assert!(plan.is_rewrite_cache && plan.cache.max_segments == 50);
    let wrong = "tables = 9\nmax_entries = 0\nslow_path_max_pps = 0\nslow_path_min_cpu_percent = 0\n";
    let wrong = check(&format!("engine = \"interp\"\n[cache]\nkind = \"exact\"\n{wrong}")).map(|_| ());
    let places: Vec<_> = wrong.unwrap_err().into_iter().filter_map(|mistake| mistake.location).collect();
    assert_eq!(places, [(4, 1), (5, 1), (6, 1), (7, 1)]);
}

#[test]
fn a_cache_is_in_front_of_the_engine_that_it_is_made_for() {
    let engine = |text: &str| check(text).map(|config| config.engine.name());
    assert_eq!(engine("[cache]\nkind = \"none\"\n"), Ok("jit"), "nothing is slower by a default");
    for (engine, kind, help) in [
        ("jit", "adaptive", "engine = \"interp\""),
        ("jit", "exact", "engine = \"interp\""),
        ("interp", "rewrites", "engine = \"jit\""),
        ("interp", "xdp", "engine = \"jit\""),
        ("asic", "rewrites", "[tiers]"),
    ] {
        let found = mistakes(&format!("engine = \"{engine}\"\n[cache]\nkind = \"{kind}\"\n"));
        assert!(found.len() == 1 && found[0].starts_with("(3, 1) ") && found[0].contains(help), "{found:?}");
    }
}

#[test]
fn the_flow_cache_in_the_kernel() {
    let flows = |text: &str| {
        let plan: XdpPlan = configured_factory(text);
        assert_eq!(plan.cache.cache.slow_path, Some(SlowPathBudget::per_second(7)));
        plan.flows
    };
    let slow = "[cache]\nkind = \"xdp\"\nslow_path_max_pps = 7\n";
    assert_eq!(flows(slow), XdpPlan::FLOWS);
    assert_eq!(flows(&format!("{slow}max_entries = 77\n")), 77);
    let hook = |hook: &str| configured_factory::<XdpPlan>(&format!("[cache]\nkind = \"xdp\"\n{hook}")).hook;
    assert_eq!(hook(""), HookChoice::Auto);
    assert_eq!(hook("hook = \"xdp\"\n"), HookChoice::Xdp);
    assert_eq!(hook("hook = \"tc\"\n"), HookChoice::Tc);
    assert!(mistakes("[cache]\nkind = \"xdp\"\nhook = \"tcx\"\n")[0].contains("unknown variant `tcx`"));
    let found = mistakes("[cache]\nkind = \"xdp\"\nmax_entries = 0\n");
    assert!(found[0].starts_with("(3, 1) `max_entries` of the kernel's cache is 1 to 4194304"), "{found:?}");
}

#[test]
fn the_engine_and_its_chip_are_checked_as_a_whole() {
    let engine = |text: &str| check(text).map(|config| config.engine).unwrap_or_else(|found| panic!("{found:?}"));
    assert_eq!(engine("").name(), "jit");
    assert_eq!(engine("engine = \"interp\"\n").name(), "interp");
    let plan: SwitchPlan =
        configured_factory("engine = \"asic\"\n[switch]\ntarget = \"tofino2\"\nfold = 2\ndefault_table_entries = 7\n");
    assert_eq!((plan.target.name.as_str(), plan.fold, plan.room.others), ("tofino2", Some(2), 7));
    let wrong = "engine = \"asic\"\n[switch]\ntarget = \"tofino9\"\nfold = 3\ndefault_table_entries = 0\nsizing_file = \"/nowhere.toml\"\n";
    let found = mistakes(wrong);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].contains("give a target file, or one of tofino1, tofino2, dpu8"), "{found:?}");
    assert!(mistakes("engine = \"npu\"\n")[0].contains("unknown variant `npu`"));
}

#[test]
fn a_binary_without_the_wings_says_so() {
    let alone = |text: &str| lines(node::config::check(text, Wings::default()).err().unwrap_or_default());
    assert_eq!(alone("engine = \"interp\"\n"), [""; 0]);
    for (text, place) in [
        ("engine = \"asic\"\n", "(1, 1)"),
        ("[cache]\nkind = \"rewrites\"\n", "(2, 1)"),
        ("[cache]\nkind = \"xdp\"\n", "(2, 1)"),
        ("engine = \"interp\"\n[cache]\nkind = \"megaflow\"\n", "(3, 1)"),
        ("[tiers]\nlocal = [\"switch\", \"cpu\"]\n", "(1, 2)"),
    ] {
        let found = alone(text);
        assert!(found.len() == 1 && found[0].starts_with(place), "{found:?}");
        assert!(found[0].contains("built without") && found[0].contains("cargo feature `wings`"), "{found:?}");
    }
}
