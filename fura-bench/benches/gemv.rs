//! Matrix products of one row: bytes of weights a second for every tier, to be read beside `limits/read`.
#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fura_bench::product::{HEAD, Product, Weights, shapes};
use fura_quant::Format;
use fura_simd::Isa;
use std::time::Duration;

fn gemv(c: &mut Criterion) {
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be had");
        for format in Format::ALL {
            let mut group = c.benchmark_group(format!("gemv/{}", format.name()));
            group
                .sample_size(10)
                .warm_up_time(Duration::from_millis(300))
                .measurement_time(Duration::from_secs(1));
            for (d_out, d_in) in shapes(format).chain([HEAD]) {
                let weights = Weights::new(format, d_out, d_in);
                group.throughput(Throughput::Bytes(weights.bytes().len() as u64));
                for isa in Isa::available() {
                    let mut product = Product::<i8>::new(isa, &weights, 1, threads);
                    let id = format!("{d_out}x{d_in}/threads{threads}");
                    group.bench_function(BenchmarkId::new(isa.tier().name(), id), |b| {
                        b.iter(|| product.run(&pool))
                    });
                }
            }
        }
    }
}

criterion_group!(benches, gemv);
criterion_main!(benches);
