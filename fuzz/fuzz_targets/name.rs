#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| fura_fuzz::name(data));
