#![no_main]
libfuzzer_sys::fuzz_target!(
    init: {
        unsafe extern "C" {
            fn signal(number: i32, handler: usize) -> usize;
        }
        // SAFETY: `SIGPIPE` (13) is ignored (1), as Rust's own `main` does, which libFuzzer's replaces: a command may
        // end before it has read its requests.
        unsafe { signal(13, 1) };
    },
    |data: &[u8]| fura_fuzz::external(data)
);
