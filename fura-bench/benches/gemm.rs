//! Matrix products of many rows: operations per second for every instruction set, to be read beside `limits`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fura_bench::{SHAPES, activations, weights};
use fura_quant::{Format, PackedMatrix};
use fura_simd::Isa;

fn gemm(c: &mut Criterion) {
    for format in Format::ALL {
        let mut group = c.benchmark_group(format!("gemm/{}", format.name()));
        group.sample_size(10);
        for (d_out, d_in) in SHAPES {
            let bytes = weights(format, d_out, d_in);
            let w = PackedMatrix::new(format, d_out, d_in, &bytes).expect("packed to this shape");
            for rows in [4, 16, 64, 256] {
                // One element is one multiply-add, two operations.
                group.throughput(Throughput::Elements((rows * d_out * d_in) as u64));
                for isa in Isa::available().skip(1) {
                    let x = activations(isa, rows, d_in);
                    let mut y = vec![0.0; rows * d_out];
                    let id = BenchmarkId::new(isa.tier().name(), format!("{d_out}x{d_in}/rows{rows}"));
                    group.bench_function(id, |b| {
                        b.iter(|| w.multiply(isa, x.view(), 0..w.tiles(), &mut y, d_out));
                    });
                }
            }
        }
    }
}

criterion_group!(benches, gemm);
criterion_main!(benches);
