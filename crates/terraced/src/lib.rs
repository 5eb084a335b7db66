//! Composition of the binary `terraced`: the only place that links the core of Terrace with the
//! emulated switch, tiers and flow caches. Without the cargo feature `wings`, it links none of
//! them.

use node::wings::Wings;

/// Returns the optional engines that this binary adds to native code and the reference engine.
pub fn wings() -> Wings {
    #[cfg(feature = "wings")]
    return Wings { switch: Some(&switch_engines::SwitchEngines), caches: Some(&cache_engines::CacheEngines) };
    #[cfg(not(feature = "wings"))]
    Wings::default()
}
