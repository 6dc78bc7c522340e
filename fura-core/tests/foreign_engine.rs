//! The example of an outsider's engine learns what it says it learns.

#[allow(dead_code)] // its `main` prints
#[path = "../examples/foreign_engine.rs"]
mod foreign_engine;

#[test]
fn a_foreign_engine_is_trained_by_this_crate_alone() {
    let (before, after) = foreign_engine::train().unwrap();
    // 2000 inputs: four standard errors of a difference are at most 0.063.
    assert!(after > before + 0.1, "{before} -> {after}");
}
