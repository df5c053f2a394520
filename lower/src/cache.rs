//! What the KV cache's elements are stored as.

use pumex_shaders::constants::KV_TYPES;

/// Element type of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CacheType {
    F32,
    #[default]
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Iq4Nl,
}

impl CacheType {
    /// All types, in the order of [`KV_TYPES`].
    pub const ALL: [CacheType; KV_TYPES.len()] = [
        CacheType::F32,
        CacheType::F16,
        CacheType::Bf16,
        CacheType::Q8_0,
        CacheType::Q4_0,
        CacheType::Q4_1,
        CacheType::Q5_0,
        CacheType::Q5_1,
        CacheType::Iq4Nl,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        KV_TYPES[self as usize].name
    }

    /// The type of that name.
    pub fn named(name: &str) -> Option<CacheType> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }

    /// Bytes of so many elements, a multiple of 32 for types of blocks.
    pub fn bytes(self, elements: u64) -> u64 {
        (elements * u64::from(KV_TYPES[self as usize].words) * 4).div_ceil(32)
    }

    /// Whether halves hold the elements well enough for products: they are, or have few bits.
    pub fn becomes_halves(self) -> bool {
        self == CacheType::F16 || self.is_quantized()
    }

    /// Whether elements come in blocks of 32.
    pub fn is_quantized(self) -> bool {
        KV_TYPES[self as usize].words < 16 // those of halves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variants stand in the order of the table that shaders are made from.
    #[test]
    fn types_have_their_rows() {
        for (i, t) in CacheType::ALL.into_iter().enumerate() {
            let name = format!("{t:?}").to_lowercase().replace("iq4nl", "iq4_nl");
            assert_eq!((t as usize, t.name(), CacheType::named(&name)), (i, name.as_str(), Some(t)));
        }
        let quantized = CacheType::ALL.into_iter().filter(|t| t.is_quantized()).map(CacheType::name);
        assert_eq!(quantized.collect::<Vec<_>>(), ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"]);
        assert_eq!((CacheType::Q8_0.bytes(64), CacheType::F16.bytes(64), CacheType::named("f64")), (72, 128, None));
    }
}
