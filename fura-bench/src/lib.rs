//! What the benchmarks of fura share: the products and transforms they run, and the limits they are read against.
//!
//! * [`product`]: matrix products over layer shapes, split over the threads of a pool that the caller owns;
//! * [`input`]: the input transform;
//! * [`limits`]: what one core can do at most with a tier's instructions: reading, integer and f32 arithmetic;
//! * [`sample`]: rates of a kernel and of its limit, measured alternately;
//! * [`machine`]: what a result file says about the machine.
#![deny(unsafe_code)]

pub mod input;
pub mod limits;
pub mod machine;
pub mod product;
pub mod sample;
