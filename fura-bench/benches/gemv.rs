//! Matrix products of one row: bytes of weights per second for every instruction set, to be read beside `limits`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fura_bench::{SHAPES, activations, weights};
use fura_quant::{Format, PackedMatrix};
use fura_simd::Isa;

fn gemv(c: &mut Criterion) {
    for format in Format::ALL {
        let mut group = c.benchmark_group(format!("gemv/{}", format.name()));
        group.sample_size(20);
        for (d_out, d_in) in SHAPES {
            let bytes = weights(format, d_out, d_in);
            let w = PackedMatrix::new(format, d_out, d_in, &bytes).expect("packed to this shape");
            group.throughput(Throughput::Bytes(bytes.len() as u64));
            for isa in Isa::available().skip(1) {
                let x = activations(isa, 1, d_in);
                let mut y = vec![0.0; d_out];
                let id = BenchmarkId::new(isa.tier().name(), format!("{d_out}x{d_in}"));
                group.bench_function(id, |b| {
                    b.iter(|| w.multiply(isa, x.view(), 0..w.tiles(), &mut y, d_out));
                });
            }
        }
    }
}

criterion_group!(benches, gemv);
criterion_main!(benches);
