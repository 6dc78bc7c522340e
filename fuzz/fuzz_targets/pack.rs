#![no_main]
//! A pack, with right checksums.

use fura_fuzz::{Packed, check_pack};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static PACKED: Packed = Packed::new();
}

fuzz_target!(|data: &[u8]| PACKED.with(|packed| packed.read(&check_pack(data.to_vec()))));
