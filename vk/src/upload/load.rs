//! What is to be sent, and how.

use crate::memory::Buffer;
use crate::pipeline::Pipeline;
use pumex_gguf::Result;

/// How uploads are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadOptions {
    /// Threads that fill batches.
    pub threads: usize,
    /// Bytes of a batch, and of the slot that holds it.
    pub batch_bytes: usize,
    /// Slots, in the host's memory, which are made at once; 0 for one when it is needed.
    pub slots: usize,
}

/// Rows of `row_bytes` bytes to be turned into rows of `row_words` words by a kernel, on their way.
pub struct Repack {
    /// Takes the addresses of both sides and the number of rows, then `rest`.
    pub pipeline: Pipeline,
    /// Push constants after those.
    pub rest: Vec<u8>,
    /// Bytes of a row as uploaded.
    pub row_bytes: usize,
    /// Words of a row as kept.
    pub row_words: usize,
}

/// Bytes to be sent to the start of a buffer.
pub struct Load<'a> {
    /// Where to.
    pub to: Buffer,
    /// What.
    pub bytes: &'a [u8],
    /// Bytes that are checked together: what [`UploadSource::check`] gets are whole multiples of it.
    pub unit: usize,
    /// A kernel that lays them out; whole rows then, and none for mapped buffers.
    pub repack: Option<Repack>,
    /// What the caller knows it by.
    pub epoch: usize,
}

/// Says of bytes whether they may be sent.
pub trait UploadSource: Sync {
    /// Called with epoch, place and length of bytes that nobody has read yet, and nobody will if it fails.
    ///
    /// # Errors
    /// Bytes that cannot be read.
    fn ready(&self, epoch: usize, from: usize, len: usize) -> Result<()>;

    /// Called with epoch, place and bytes that were just read, so that the core has them in its cache: whole units.
    ///
    /// # Errors
    /// Bytes that must not be used.
    fn check(&self, epoch: usize, from: usize, bytes: &[u8]) -> Result<()>;
}

/// Any bytes will do.
impl UploadSource for () {
    fn ready(&self, _: usize, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn check(&self, _: usize, _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }
}
