//! A plugin for qemu-user (API version 1) that counts the instructions executed in functions whose symbol contains a
//! given text. `scripts/instruction-counts.sh` builds and uses it:
//!
//! `qemu-aarch64 -plugin libqemu_count.so,in=neon_dotprod PROGRAM` prints `counted N` to standard error at exit.
//!
//! Counters are plain additions in the translated code: programs with one busy thread only.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

type Id = u64;

/// `QEMU_PLUGIN_INLINE_ADD_U64`.
const ADD: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: extern "C" fn(Id, *mut c_void));
    fn qemu_plugin_register_atexit_cb(id: Id, callback: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_symbol(instruction: *const c_void) -> *const c_char;
    fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut c_void,
        operation: c_int,
        counter: *mut c_void,
        by: u64,
    );
}

/// Incremented by translated code, read at exit.
struct Counter(UnsafeCell<u64>);
// SAFETY: only qemu's translated code writes it, from the one busy thread; it is read after that thread has ended.
unsafe impl Sync for Counter {}

static COUNT: Counter = Counter(UnsafeCell::new(0));
static WANTED: OnceLock<String> = OnceLock::new();

/// Read by qemu.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// Called by qemu once, with the arguments that follow the plugin's name.
///
/// # Safety
/// `argv` points to `argc` strings, as qemu promises.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    for i in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: promised by the caller.
        let argument = unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy();
        match argument.strip_prefix("in=") {
            Some(text) if WANTED.set(text.to_owned()).is_ok() => {}
            _ => return 1,
        }
    }
    if WANTED.get().is_none() {
        return 1;
    }
    // SAFETY: the identifier is the one qemu gave, and the callbacks have the types it asks for.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, finished, std::ptr::null_mut());
    }
    0
}

/// Called for each block of instructions that qemu translates.
extern "C" fn translated(_: Id, block: *mut c_void) {
    let wanted = WANTED.get().map_or("", String::as_str);
    // SAFETY: the block is qemu's and lives through this call, the index is in range, a symbol that is not null is a
    // string, and the counter is a u64 that lives forever.
    unsafe {
        for i in 0..qemu_plugin_tb_n_insns(block) {
            let instruction = qemu_plugin_tb_get_insn(block, i);
            let symbol = qemu_plugin_insn_symbol(instruction);
            if !symbol.is_null() && CStr::from_ptr(symbol).to_string_lossy().contains(wanted) {
                qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD, COUNT.0.get().cast(), 1);
            }
        }
    }
}

extern "C" fn finished(_: Id, _: *mut c_void) {
    // SAFETY: the program has ended, so nothing writes any more.
    eprintln!("counted {}", unsafe { *COUNT.0.get() });
}
