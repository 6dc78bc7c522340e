//! Matrix products of several rows: multiply-adds a second for every tier, to be read beside `limits/integer`.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fura_bench::product::{Product, Weights, shapes};
use fura_quant::Format;
use fura_simd::{Isa, Tier};
use std::time::Duration;

/// The most multiply-adds of a product that the scalar tier is asked for: more take it minutes and show nothing new.
const SCALAR_MACS: usize = 1536 * 576 * 16;

fn gemm(c: &mut Criterion) {
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be had");
        for format in Format::ALL {
            let mut group = c.benchmark_group(format!("gemm/{}", format.name()));
            group
                .sample_size(10)
                .warm_up_time(Duration::from_millis(300))
                .measurement_time(Duration::from_secs(1));
            for (d_out, d_in) in shapes(format) {
                let weights = Weights::new(format, d_out, d_in);
                for rows in [4, 16, 64, 256] {
                    let macs = rows * weights.macs();
                    group.throughput(Throughput::Elements(macs as u64));
                    for isa in Isa::available() {
                        if isa.tier() == Tier::Scalar && macs > SCALAR_MACS {
                            continue;
                        }
                        let mut product = Product::<i8>::new(isa, &weights, rows, threads);
                        let id = format!("{d_out}x{d_in}/rows{rows}/threads{threads}");
                        let id = BenchmarkId::new(isa.tier().name(), id);
                        group.bench_function(id, |b| b.iter(|| product.run(&pool)));
                    }
                }
            }
        }
    }
}

criterion_group!(benches, gemm);
criterion_main!(benches);
