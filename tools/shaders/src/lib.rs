//! What the compiled shaders are made of. The compiler itself comes with the feature `shaderc`.

#[cfg(feature = "shaderc")]
pub mod compile;
pub mod lock;
pub mod sources;
