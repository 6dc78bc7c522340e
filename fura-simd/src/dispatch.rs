//! One body, compiled once for each tier: the canonical order is written once in plain Rust with
//! explicit lanes and explicit fused operations, and the compiler vectorizes it for each feature set
//! without being allowed to reorder anything.

/// Defines `pub fn name(isa: Isa, args..)` that runs a body compiled for the tier of `isa`.
///
/// The body is an `#[inline(always)]` function that spells out its lanes and its fused operations, so
/// every tier gives the same bits. After `, avx512:` there may be another one for AVX-512, of the same bits, that uses its
/// registers.
///
/// ```
/// # mod example {
/// #[inline(always)]
/// fn scale_body(x: &mut [f32], by: f32) {
///     x.iter_mut().for_each(|v| *v *= by);
/// }
/// fura_simd::dispatch! {
///     /// Multiplies every element.
///     pub fn scale(x: &mut [f32], by: f32) = scale_body
/// }
/// # }
/// let mut x = [1.0f32, 2.0];
/// example::scale(fura_simd::Isa::detect(), &mut x, 3.0);
/// assert_eq!(x, [3.0, 6.0]);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path) => {
        $crate::dispatch! {
            $(#[$doc])*
            $vis fn $name($($arg: $ty),*) $(-> $ret)? = $body, avx512: $body
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:path, avx512: $wide:path) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        $vis fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            mod tier {
                use super::*;
                #[target_feature(enable = "avx2,fma,f16c")]
                pub(super) fn avx2($($arg: $ty),*) $(-> $ret)? { $body($($arg),*) }
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
                pub(super) fn avx512($($arg: $ty),*) $(-> $ret)? { $wide($($arg),*) }
            }
            match isa.tier() {
                // SAFETY: an `Isa` of this tier exists only if detection found the features.
                #[cfg(target_arch = "x86_64")]
                $crate::Tier::Avx2 => unsafe { tier::avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::Tier::Avx512 => unsafe { tier::avx512($($arg),*) },
                _ => $body($($arg),*),
            }
        }
    };
}
