//! Pictures and sounds of prompts.

use bytes::Bytes;
use std::fmt;

/// What stands in a conversation's text where a medium goes. In a [`Chat`](super::Chat) that has media it stands there for nothing
/// else: as often as there are media.
pub const MEDIA_MARK: &str = "<__media__>";

/// What a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MediumKind {
    Picture,
    Sound,
}

/// A picture or a sound as it came: a file's bytes, which nobody has decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Medium {
    /// What it is said to be, or what its first bytes look like.
    pub kind: MediumKind,
    /// The file. They count as memory of requests until the last clone is dropped.
    pub bytes: Bytes,
    /// Most tokens that it may take; none: as many as the model wants.
    pub max_tokens: Option<usize>,
    /// Where it stood in the request's body, for a refusal's [`field`](super::Refusal::field).
    pub field: String,
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Medium { kind, bytes, max_tokens, field } = self;
        write!(f, "{kind:?} of {} bytes at {field}, at most {max_tokens:?} tokens", bytes.len())
    }
}
