//! A generation allocates nothing (contract C2).

use std::alloc::{GlobalAlloc, Layout as Request, System};
use std::cell::Cell;

use fura_core::estimator::{EsConfig, Estimator, Shaping};
use fura_core::layout::{Layout, Linear};
use fura_core::transform::{Isa, Transform};

struct Counting;

thread_local! {
    /// Of this thread: the crate starts no other, and the test harness's are not its fault.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call is passed on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, request: Request) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.alloc(request) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, request: Request) {
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.dealloc(pointer, request) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, request: Request, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is `System`'s.
        unsafe { System.realloc(pointer, request, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn ask_members_and_tell_allocate_nothing() {
    let layout = Layout::new(32, [Linear::new("a", 8, 1000), Linear::new("b", 8, 3000)]).unwrap();
    for shaping in [Shaping::ZScore, Shaping::CentredRanks, Shaping::PairSign, Shaping::None] {
        let config =
            EsConfig { pairs: 20, shaping, momentum: 0.5, average_from: Some(0), ..EsConfig::default() };
        let mut estimator = Estimator::new(config, &layout).unwrap();
        let mut c = vec![0.0; 3000];
        let mut rewards = vec![0.0; 40];
        let before = ALLOCATIONS.get();
        for _ in 0..3 {
            for (member, reward) in estimator.ask().members().zip(&mut rewards) {
                estimator.member_coordinates(member, layout.range(1), &mut c);
                *reward = f64::from(c[0]);
            }
            estimator.tell(&rewards).unwrap();
        }
        let after = ALLOCATIONS.get();
        assert_eq!(after - before, 0, "{shaping:?}");
    }
}

#[test]
fn transforms_allocate_nothing_and_in_place_is_the_same() {
    for (d_in, block) in [(576, 32), (576, 64), (100, 24), (70, 70), (48, 1)] {
        let layout = Layout::new(block, [Linear::new("w", 8, d_in)]).unwrap();
        let basis: Vec<f32> =
            (0..fura_simd::block::matrix_len(d_in, block)).map(|i| 0.1 - (i % 7) as f32 * 0.03).collect();
        let c: Vec<f32> = (0..d_in).map(|i| (i % 5) as f32 * 0.1 - 0.2).collect();
        let x: Vec<f32> = (0..256 * d_in).map(|i| (i % 11) as f32 - 5.0).collect();
        let mut rows = x.clone();
        let mut y = vec![0.0; x.len()];
        for isa in Isa::available() {
            let mut transform = Transform::for_layout(&layout);
            let before = ALLOCATIONS.get();
            transform.materialize(isa, &basis, &c, block);
            transform.apply(isa, &x, &mut y);
            rows.copy_from_slice(&x);
            transform.apply_in_place(isa, &mut rows);
            assert_eq!(ALLOCATIONS.get() - before, 0, "{isa:?} b={block}");
            assert!(rows == y && y != x, "{isa:?} b={block}");
        }
    }
}
