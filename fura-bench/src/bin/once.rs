//! Runs one matrix product once, for programs that count instructions (`scripts/instruction-counts.sh`).
//!
//! `once TIER FORMAT BITS ROWS D_OUT D_IN`, for example `once avx2 q4 8 1 4096 4096`; `BITS` are those of activations' codes.
#![forbid(unsafe_code)]

use fura_bench::product::{Product, Weights};
use fura_quant::Format;
use fura_simd::Isa;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: once TIER FORMAT 8|16 ROWS D_OUT D_IN";
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [tier, format, bits, rows, d_out, d_in] = &args[..] else {
        return Err(USAGE.into());
    };
    let format = Format::from_name(format).ok_or("no such format")?;
    let (rows, d_out, d_in) = (rows.parse()?, d_out.parse()?, d_in.parse()?);
    let weights = Weights::new(format, d_out, d_in);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let isa = Isa::named(tier)?;
    match bits.as_str() {
        "8" => Product::<i8>::new(isa, &weights, rows, 1).run(&pool),
        "16" => Product::<i16>::new(isa, &weights, rows, 1).run(&pool),
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
