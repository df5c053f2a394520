//! Memory for bodies: what is worked on at once takes no more than so many bytes together.

use crate::engine::RefusalKind;
use crate::errors::{invalid, refusal, Result};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{timeout_at, Instant};

/// Bytes of a value of JSON, about: an object's entry and its key's allocation.
const VALUE: usize = 128;
/// Room is counted in pages, of which a semaphore has enough.
const PAGE: usize = 4096;

/// All of it.
pub(crate) struct BodyMemory {
    pages: Arc<Semaphore>,
    all: usize,
}

/// A body's share, until it is dropped.
pub(crate) type BodyShare = Option<OwnedSemaphorePermit>;

impl BodyMemory {
    /// So many bytes.
    pub fn new(bytes: usize) -> BodyMemory {
        let all = (bytes / PAGE).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        BodyMemory { pages: Arc::new(Semaphore::new(all)), all }
    }

    /// Room for so many bytes more of a request that has some already, without waiting for those that wait for it.
    ///
    /// # Errors
    /// There is none.
    pub fn grab(&self, bytes: usize) -> Result<BodyShare> {
        let pages = u32::try_from(bytes.div_ceil(PAGE)).unwrap_or(u32::MAX);
        let permit = self.pages.clone().try_acquire_many_owned(pages);
        permit.map(Some).map_err(|_| refusal(RefusalKind::Busy, "other requests take all room for bodies").into())
    }

    /// Keeps of a share what so many bytes take; the rest is free again.
    pub fn keep(held: BodyShare, bytes: usize) -> BodyShare {
        held.and_then(|mut held| held.split(bytes.div_ceil(PAGE).min(held.num_permits())))
    }

    /// Waits for room for a body and what is read of it. Those that came first get theirs first.
    ///
    /// # Errors
    /// More values than `most`; no room until then.
    pub async fn take(&self, body: &[u8], most: usize, until: Instant) -> Result<BodyShare> {
        let values = values(body);
        if values > most {
            return Err(invalid("", format!("the body: expected at most {most} values of JSON, found {values}")));
        }
        self.take_bytes(body.len() + values * VALUE, until).await
    }

    /// Waits for room for so many bytes.
    ///
    /// # Errors
    /// No room until then.
    pub async fn take_bytes(&self, bytes: usize, until: Instant) -> Result<BodyShare> {
        let pages = bytes.div_ceil(PAGE).min(self.all);
        let permit = timeout_at(until, self.pages.clone().acquire_many_owned(pages as u32)).await;
        match permit {
            // It is never closed.
            Ok(permit) => Ok(permit.ok()),
            Err(_) => Err(refusal(RefusalKind::Busy, "other requests take all room for bodies").into()),
        }
    }
}

/// Values and keys of a text, counted by what stands between them.
fn values(body: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b':' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::{values, BodyMemory, PAGE};
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn values_are_counted_outside_of_texts() {
        for (body, expected) in [("1", 1), ("[1,2,3]", 4), (r#"{"a":[1,"b,[\"{,"]}"#, 5), (r#""\\",1"#, 2), ("", 1)] {
            assert_eq!(values(body.as_bytes()), expected, "{body}");
        }
    }

    #[tokio::test]
    async fn bodies_wait_for_room_and_are_told_when_there_is_none() {
        let room = BodyMemory::new(4 * PAGE);
        let soon = || Instant::now() + Duration::from_millis(20);
        let body = vec![b' '; 3 * PAGE - 200];
        let first = room.take(&body, 10, soon()).await.unwrap();
        assert!(room.take(&body, 10, soon()).await.is_err(), "no room");
        assert!(room.take(b"{}", 10, soon()).await.is_ok(), "a small one fits beside it");
        drop(first);
        assert!(room.take(&body, 10, soon()).await.is_ok());
        assert!(room.take(&vec![b' '; 100 * PAGE], 10, soon()).await.is_ok(), "what is larger than all has all");
        assert!(room.take(b"[1,2,3,4,5,6,7,8,9,10]", 10, soon()).await.is_err(), "too many values");
    }
}
