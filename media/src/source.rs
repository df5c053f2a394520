//! What the encoders read of a projector's file.

use pumex_quant::FormatId;
use std::sync::Arc;

/// A tensor as it is stored.
#[derive(Clone, Debug)]
pub struct StoredTensor<'a> {
    /// Lengths, the fastest varying first, without trailing ones of 1.
    pub shape: Vec<usize>,
    /// Weight format.
    pub format: FormatId,
    /// All of its bytes.
    pub data: &'a [u8],
}

/// Metadata and tensors by name: a GGUF file of `general.architecture = clip`.
pub trait Source: Sync {
    /// A string of the metadata.
    fn text(&self, key: &str) -> Option<String>;

    /// A number or a flag (1 or 0) of the metadata, of any type.
    fn number(&self, key: &str) -> Option<f64>;

    /// An array of numbers of the metadata.
    fn numbers(&self, key: &str) -> Option<Vec<f64>>;

    /// A tensor.
    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>>;
}

impl<T: Source + ?Sized> Source for &T {
    fn text(&self, key: &str) -> Option<String> {
        (**self).text(key)
    }

    fn number(&self, key: &str) -> Option<f64> {
        (**self).number(key)
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        (**self).numbers(key)
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        (**self).tensor(name)
    }
}

impl<T: Source + Send + ?Sized> Source for Arc<T> {
    fn text(&self, key: &str) -> Option<String> {
        (**self).text(key)
    }

    fn number(&self, key: &str) -> Option<f64> {
        (**self).number(key)
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        (**self).numbers(key)
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        (**self).tensor(name)
    }
}
