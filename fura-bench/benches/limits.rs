//! What the other benches are read against, one thread and every tier: reading memory, integer and f32 arithmetic; and
//! beside them the input transform and the activation quantizer.
#![forbid(unsafe_code)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fura_bench::input::Input;
use fura_bench::limits;
use fura_quant::Activations;
use fura_simd::Isa;

/// Buffers that fit a second-level cache, a large last-level cache, and neither.
const READ_MIB: [usize; 3] = [1, 24, 256];

fn limits(c: &mut Criterion) {
    for isa in Isa::available() {
        let tier = isa.tier().name();
        let mut group = c.benchmark_group("limits/read");
        group.sample_size(10);
        for mib in READ_MIB {
            let bytes = vec![1; mib << 20];
            group.throughput(Throughput::Bytes(bytes.len() as u64));
            group.bench_function(format!("{tier}/{mib}MiB"), |b| b.iter(|| limits::read(isa, &bytes)));
        }
        drop(group);
        // One element is one multiply-add.
        let mut group = c.benchmark_group("limits/integer");
        if let Some(macs) = limits::integer(isa) {
            group.throughput(Throughput::Elements(macs as u64));
            group.bench_function(tier, |b| b.iter(|| limits::integer(isa)));
        }
        drop(group);
        let mut group = c.benchmark_group("limits/float");
        if let Some(macs) = limits::float(isa) {
            group.throughput(Throughput::Elements(macs as u64));
            group.bench_function(tier, |b| b.iter(|| limits::float(isa)));
        }
    }
}

fn transform(c: &mut Criterion) {
    let (d_in, rows) = (576, 256);
    for b in [32, 64] {
        for isa in Isa::available() {
            let tier = isa.tier().name();
            let mut input = Input::new(isa, d_in, b, rows);
            let mut group = c.benchmark_group(format!("transform/b{b}"));
            // Multiply-adds, as for `limits/float`.
            group.throughput(Throughput::Elements(input.materialize_flops() as u64 / 2));
            group.bench_function(format!("materialize/{tier}"), |bench| bench.iter(|| input.materialize()));
            group.throughput(Throughput::Elements(input.apply_flops() as u64 / 2));
            group.bench_function(format!("apply/{tier}"), |bench| bench.iter(|| input.apply()));
            group.bench_function(format!("apply-in-place/{tier}"), |bench| {
                bench.iter(|| input.apply_in_place())
            });
        }
    }
}

fn quantize(c: &mut Criterion) {
    let (d_in, rows) = (576, 256);
    let x: Vec<f32> = (0..rows * d_in).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect();
    let mut group = c.benchmark_group("quantize");
    group.throughput(Throughput::Elements(x.len() as u64));
    for isa in Isa::available() {
        let mut codes = Activations::<i8>::with_capacity(rows, d_in);
        group.bench_function(isa.tier().name(), |b| b.iter(|| codes.quantize(isa, &x, d_in)));
    }
}

criterion_group!(benches, limits, transform, quantize);
criterion_main!(benches);
