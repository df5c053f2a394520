//! Desks: threads that work for requests, so many at a time, in turn by the keys that the requests brought.
//!
//! Tokenizing, templates and grammars are worked on here before a request is queued: by four threads at most, and by one more
//! where something is compiled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

tokio::task_local! {
    /// The number of the key of the request at work, if it brought one.
    pub(super) static KEY: Option<usize>;
}

/// Some desks, and who waits for one.
pub(super) struct Desks(Mutex<DeskState>);

struct DeskState {
    free: usize,
    /// By key, those who wait, the first one first; none of them is empty. Whose turn it is stands first.
    waiting: VecDeque<(Option<usize>, VecDeque<oneshot::Sender<Desk>>)>,
}

/// A desk, until it is dropped.
pub(super) struct Desk(Option<Arc<Desks>>);

impl Desks {
    /// So many.
    pub fn new(free: usize) -> Arc<Desks> {
        Arc::new(Desks(Mutex::new(DeskState { free, waiting: VecDeque::new() })))
    }

    fn state(&self) -> MutexGuard<'_, DeskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A desk for the request at work: keys that wait have one after the other, so that many requests of one key hold up no other key
    /// for longer than one of them takes.
    pub async fn take(self: &Arc<Desks>) -> Desk {
        let key = KEY.try_with(|key| *key).ok().flatten();
        let (sender, desk) = oneshot::channel();
        {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Desk(Some(self.clone()));
            }
            match state.waiting.iter_mut().find(|(of, _)| *of == key) {
                Some((_, queue)) => queue.push_back(sender),
                None => state.waiting.push_back((key, VecDeque::from([sender]))),
            }
        }
        // Whoever has a desk gives it to somebody who waits.
        desk.await.unwrap_or(Desk(None))
    }

    /// Gives a desk that is free again to the next who waits.
    fn pass_on(self: Arc<Desks>) {
        let mut desk = Desk(Some(self.clone()));
        loop {
            let Some(next) = self.next() else {
                desk.0 = None;
                return;
            };
            match next.send(desk) {
                Ok(()) => return,
                // That one's client is gone.
                Err(back) => desk = back,
            }
        }
    }

    /// Who is next; none if nobody waits, and the desk is free.
    fn next(&self) -> Option<oneshot::Sender<Desk>> {
        let mut state = self.state();
        let Some((key, mut queue)) = state.waiting.pop_front() else {
            state.free += 1;
            return None;
        };
        let next = queue.pop_front();
        if !queue.is_empty() {
            state.waiting.push_back((key, queue));
        }
        next
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Desks::pass_on);
    }
}

#[cfg(test)]
mod tests {
    use super::{Desks, KEY};
    use std::sync::{Arc, Mutex};

    /// Queues for a desk as a request of that key; notes its name when it has one.
    fn queue(desks: &Arc<Desks>, key: Option<usize>, name: &str, order: &Arc<Mutex<Vec<String>>>) -> Waiting {
        let (desks, order, name) = (desks.clone(), order.clone(), name.to_string());
        tokio::spawn(KEY.scope(key, async move {
            let _desk = desks.take().await;
            order.lock().unwrap().push(name);
        }))
    }

    type Waiting = tokio::task::JoinHandle<()>;

    #[tokio::test]
    async fn keys_have_desks_in_turn_whatever_one_of_them_asks_for() {
        let desks = Desks::new(1);
        let order = Arc::default();
        let first = desks.take().await;
        let mut all = Vec::new();
        for (key, name) in
            [(Some(0), "a1"), (Some(0), "a2"), (Some(0), "a3"), (Some(1), "b1"), (None, "c1"), (Some(1), "b2")]
        {
            all.push(queue(&desks, key, name, &order));
            tokio::task::yield_now().await;
        }
        let gone = queue(&desks, Some(2), "gone", &order);
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(first);
        for waiting in all {
            waiting.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
        // The desk is free again, also for those outside of a request.
        drop(desks.take().await);
        assert_eq!(desks.state().free, 1);
    }
}
