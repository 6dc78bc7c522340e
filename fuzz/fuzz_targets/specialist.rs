#![no_main]
//! A specialist; one that is read is written as it was, or as its other form.

use fura_core::specialist::Specialist;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("fuzz.fura");
    if let Ok(specialist) = Specialist::from_bytes(data, path) {
        let again = Specialist::from_bytes(&specialist.to_bytes(), path).expect("what was written");
        assert!(again == specialist);
    }
});
