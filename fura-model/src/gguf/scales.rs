//! Refusing weights whose block scales or elements are infinite or not a number.

use super::cursor::{Field, locate};
use super::{Gguf, GgufError, TensorInfo, TensorKind};

/// How a number is stored.
#[derive(Debug, Clone, Copy)]
enum Number {
    F32,
    F16,
    BF16,
    /// A power of two; all ones means not a number.
    E8M0,
}

impl Number {
    fn is_finite(self, bytes: &[u8]) -> bool {
        match (self, bytes) {
            (Self::F32, &[a, b, c, d, ..]) => f32::from_le_bytes([a, b, c, d]).is_finite(),
            (Self::F16, &[a, b, ..]) => half::f16::from_le_bytes([a, b]).is_finite(),
            (Self::BF16, &[a, b, ..]) => half::bf16::from_le_bytes([a, b]).is_finite(),
            (Self::E8M0, &[a, ..]) => a != u8::MAX,
            _ => false,
        }
    }
}

/// Where in a block its floating-point numbers are, as byte offsets.
///
/// Source: the block structs of `ggml-common.h` in `ggml-org/ggml`.
fn numbers(kind: TensorKind) -> (Number, &'static [usize]) {
    match kind {
        TensorKind::F32 => (Number::F32, &[0]),
        TensorKind::F16 => (Number::F16, &[0]),
        TensorKind::BF16 => (Number::BF16, &[0]),
        TensorKind::Q4_0 | TensorKind::Q5_0 | TensorKind::Q8_0 | TensorKind::IQ4_NL => (Number::F16, &[0]),
        TensorKind::Q4_1 | TensorKind::Q5_1 | TensorKind::Q4_K | TensorKind::Q5_K => (Number::F16, &[0, 2]),
        TensorKind::Q2_K => (Number::F16, &[80, 82]),
        TensorKind::Q3_K => (Number::F16, &[108]),
        TensorKind::Q6_K => (Number::F16, &[208]),
        TensorKind::MXFP4 => (Number::E8M0, &[0]),
    }
}

impl Gguf<'_> {
    /// Checks that every block scale and minimum of `tensor` (every element, if it is not quantized) is
    /// finite. One bad scale poisons every output, and the cause is hard to find later.
    ///
    /// This reads the whole tensor, so it is not part of [`Gguf::parse`]; call it where the weights are
    /// read anyway.
    ///
    /// # Errors
    /// [`GgufError::NonFinite`] names the tensor and its first bad block; [`GgufError::MissingTensor`] if
    /// this file has no tensor of that name.
    pub fn check_finite(&self, tensor: &TensorInfo) -> Result<(), GgufError> {
        let data = self.tensor_data(&tensor.name)?;
        let (number, offsets) = numbers(tensor.kind);
        let size = tensor.kind.block_bytes();
        for (block, bytes) in data.chunks_exact(size).enumerate() {
            for &offset in offsets {
                if !number.is_finite(&bytes[offset..]) {
                    let at = tensor.range.start + block * size + offset;
                    let at = locate(&self.parts[tensor.part].file, Field::Tensor(&tensor.name), at);
                    return Err(GgufError::NonFinite { at, block });
                }
            }
        }
        Ok(())
    }
}
