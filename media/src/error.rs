//! What can go wrong with a projector's file or with a medium.

/// Result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, on one line, with expected and found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The projector's file lacks a key, or one has a value that no encoder takes.
    #[error("bad_hparam: {0}")]
    Key(String),
    /// A tensor that the encoder needs is not in the file.
    #[error("missing_tensor: {0}")]
    MissingTensor(String),
    /// A tensor has another shape than the encoder takes.
    #[error("bad_shape: {0}")]
    Shape(String),
    /// A projector or an input that is not supported.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// A picture or sound that cannot be decoded, or is larger than the limits allow.
    #[error("{0}")]
    Medium(String),
}
