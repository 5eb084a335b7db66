//! What `engine`, `[cache]`, `[switch]` and `[tiers]` of a configuration come to, with the wings and without.

use cache_engines::{CachePlan, XdpPlan};
use flowcache::Kind;
use flowcache::admission::Budget;
use flowcache::pace::Spare;
use node::config::{Config, Mistake};
use node::wings::Wings;
use std::any::Any;
use switch_engines::SwitchPlan;

fn check(text: &str) -> Result<Config, Vec<Mistake>> {
    node::config::check(text, terraced::wings())
}

fn lines(found: Vec<Mistake>) -> Vec<String> {
    let line = |mistake: Mistake| format!("{:?} {}", mistake.place.unwrap_or_default(), mistake.message);
    found.into_iter().map(line).collect()
}

fn mistakes(text: &str) -> Vec<String> {
    lines(check(text).err().unwrap_or_default())
}

/// What makes engines by this configuration.
fn made<T: Any + Clone>(text: &str) -> T {
    let config = check(text).unwrap_or_else(|found| panic!("{found:?}"));
    let plan = (&*config.engine as &dyn Any).downcast_ref::<T>().cloned();
    plan.unwrap_or_else(|| panic!("{:?}", config.engine))
}

#[test]
fn the_cache() {
    let text = "engine = \"interp\"\n[cache]\nkind = \"sub-traversal\"\ntables = 3\nentries = 50\nidle_ms = 7\nslow_path_pps = 1000\ntenant = \"meta.vpc\"\n";
    let plan: CachePlan = made(text);
    assert_eq!((plan.cache.kind, plan.cache.entries), (Kind::SubTraversal { tables: 3 }, 50));
    assert_eq!((plan.cache.idle_ns, plan.tenant.as_deref()), (Some(7_000_000), Some("meta.vpc")));
    assert_eq!(plan.cache.slow_path, Some(Budget::per_second(1_000)));
    assert_eq!(plan.spare, None);
    let paced = "engine = \"interp\"\n[cache]\nkind = \"adaptive\"\nslow_path_least_percent = 7\n";
    let plan: CachePlan = made(paced);
    assert!(plan.spare == Some(Spare { least_percent: 7 }) && plan.cache.slow_path.is_some());
    assert!(!plan.rewrites);
    let rewrites = "[cache]\nkind = \"rewrites\"\nentries = 50\n";
    let plan: CachePlan = made(rewrites);
    assert!(plan.rewrites && plan.cache.entries == 50);
    let wrong = "tables = 9\nentries = 0\nslow_path_pps = 0\nslow_path_least_percent = 0\n";
    let wrong = check(&format!("engine = \"interp\"\n[cache]\nkind = \"exact\"\n{wrong}")).map(|_| ());
    let places: Vec<_> = wrong.unwrap_err().into_iter().filter_map(|mistake| mistake.place).collect();
    assert_eq!(places, [(4, 1), (5, 1), (6, 1), (7, 1)]);
}

#[test]
fn a_cache_is_in_front_of_the_engine_that_it_is_made_for() {
    let engine = |text: &str| check(text).map(|config| config.engine.name());
    assert_eq!(engine("[cache]\nkind = \"none\"\n"), Ok("jit"), "nothing is slower by a default");
    for (engine, kind, mend) in [
        ("jit", "adaptive", "engine = \"interp\""),
        ("jit", "exact", "engine = \"interp\""),
        ("interp", "rewrites", "engine = \"jit\""),
        ("interp", "xdp", "engine = \"jit\""),
        ("asic", "rewrites", "[tiers]"),
    ] {
        let found = mistakes(&format!("engine = \"{engine}\"\n[cache]\nkind = \"{kind}\"\n"));
        assert!(found.len() == 1 && found[0].starts_with("(3, 1) ") && found[0].contains(mend), "{found:?}");
    }
}

#[test]
fn the_flow_cache_in_the_kernel() {
    let flows = |text: &str| {
        let plan: XdpPlan = made(text);
        assert_eq!(plan.cache.cache.slow_path, Some(Budget::per_second(7)));
        plan.flows
    };
    let slow = "[cache]\nkind = \"xdp\"\nslow_path_pps = 7\n";
    assert_eq!(flows(slow), XdpPlan::FLOWS);
    assert_eq!(flows(&format!("{slow}entries = 77\n")), 77);
    let found = mistakes("[cache]\nkind = \"xdp\"\nentries = 0\n");
    assert!(found[0].starts_with("(3, 1) `entries` of the kernel's cache is 1 to 4194304"), "{found:?}");
}

#[test]
fn the_engine_and_its_chip_are_checked_as_a_whole() {
    let engine = |text: &str| check(text).map(|config| config.engine).unwrap_or_else(|found| panic!("{found:?}"));
    assert_eq!(engine("").name(), "jit");
    assert_eq!(engine("engine = \"interp\"\n").name(), "interp");
    let plan: SwitchPlan = made("engine = \"asic\"\n[switch]\ntarget = \"tofino2\"\nfold = 2\nroom = 7\n");
    assert_eq!((plan.target.name.as_str(), plan.fold, plan.room.others), ("tofino2", Some(2), 7));
    let wrong = "engine = \"asic\"\n[switch]\ntarget = \"tofino9\"\nfold = 3\nroom = 0\nsizes = \"/nowhere.toml\"\n";
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
        ("[tiers]\nhere = [\"switch\", \"cpu\"]\n", "(1, 2)"),
    ] {
        let found = alone(text);
        assert!(found.len() == 1 && found[0].starts_with(place), "{found:?}");
        assert!(found[0].contains("built without") && found[0].contains("cargo feature `wings`"), "{found:?}");
    }
}
