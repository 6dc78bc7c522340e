//! Runs one matrix product once, for programs that count instructions (`scripts/instruction-counts.sh`).
//!
//! `once TIER FORMAT ROWS D_OUT D_IN`, for example `once avx2 q4 1 4096 4096`.
#![forbid(unsafe_code)]

use fura_bench::product::{Product, Weights};
use fura_quant::Format;
use fura_simd::Isa;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: once TIER FORMAT ROWS D_OUT D_IN";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [tier, format, rows, d_out, d_in] = &args[..] else {
        return Err(USAGE.into());
    };
    let format = Format::from_name(format).ok_or("no such format")?;
    let (rows, d_out, d_in) = (rows.parse()?, d_out.parse()?, d_in.parse()?);
    let weights = Weights::new(format, d_out, d_in);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    Product::new(Isa::named(tier)?, &weights, rows, 1).run(&pool);
    Ok(())
}
