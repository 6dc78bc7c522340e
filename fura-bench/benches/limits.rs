//! What the other benchmarks are to be read against: read bandwidth of this machine, and the input transform, the
//! quantizer and the packer next to it.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fura_quant::Activations;
use fura_simd::{Isa, block};
use std::hint::black_box;

/// Sums 64-bit words of buffers that fit the second-level cache, the last-level cache, and neither.
fn read_bandwidth(c: &mut Criterion) {
    let mut group = c.benchmark_group("limits/read");
    group.sample_size(10);
    for mib in [1usize, 24, 512] {
        let words = vec![1u64; mib << 17];
        group.throughput(Throughput::Bytes((mib << 20) as u64));
        group.bench_function(format!("{mib}MiB"), |b| {
            b.iter(|| {
                let (chunks, _) = words.as_chunks::<32>();
                let mut sums = [0u64; 32];
                for chunk in chunks {
                    for (s, w) in sums.iter_mut().zip(chunk) {
                        *s = s.wrapping_add(*w);
                    }
                }
                black_box(sums)
            });
        });
    }
}

fn transform(c: &mut Criterion) {
    let (d_in, rows, b) = (576, 256, 32);
    let v = vec![0.1f32; block::matrix_len(d_in, b)];
    let coordinates = vec![0.01f32; d_in];
    let x = vec![0.5f32; rows * d_in];
    for isa in Isa::available().skip(1) {
        let tier = isa.tier().name();
        let mut group = c.benchmark_group(format!("transform/{tier}"));
        let mut t = v.clone();
        let mut y = x.clone();
        group.throughput(Throughput::Elements((2 * b * b * d_in) as u64));
        group.bench_function("materialize", |bench| {
            bench.iter(|| block::materialize(isa, &v, &coordinates, b, &mut t));
        });
        group.throughput(Throughput::Elements((2 * b * rows * d_in) as u64));
        group.bench_function("apply", |bench| bench.iter(|| block::apply(isa, &t, b, d_in, &x, &mut y)));
        let mut a = Activations::with_capacity(rows, d_in);
        group.throughput(Throughput::Elements((rows * d_in) as u64));
        group.bench_function("quantize", |bench| bench.iter(|| a.quantize(isa, &x, d_in)));
    }
}

criterion_group!(benches, read_bandwidth, transform);
criterion_main!(benches);
