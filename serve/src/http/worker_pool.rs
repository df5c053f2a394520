//! Desks: threads that work for requests, so many at a time, in turn by the keys that the requests brought.
//!
//! Tokenizing, templates and grammars are worked on here before a request is queued. What is compiled may take seconds: it has desks of
//! its own, of which one key has one at a time, so that others find one free.

use std::collections::{HashMap, VecDeque};
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
    /// Most desks that one key may have at a time.
    most_of_key: usize,
    /// By key, the desks that it has; none has 0.
    taken: HashMap<Option<usize>, usize>,
    /// By key, those who wait, the first one first; none of them is empty. Whose turn it is stands first.
    waiting: VecDeque<(Option<usize>, VecDeque<oneshot::Sender<Desk>>)>,
}

/// A desk, until it is dropped.
pub(super) struct Desk(Option<(Arc<Desks>, Option<usize>)>);

impl Desks {
    /// So many, and most that one key may have at a time.
    pub fn new(free: usize, most_of_key: usize) -> Arc<Desks> {
        let (taken, waiting) = (HashMap::new(), VecDeque::new());
        Arc::new(Desks(Mutex::new(DeskState { free, most_of_key, taken, waiting })))
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
            if state.free > 0 && state.may_have_more(key) {
                state.free -= 1;
                *state.taken.entry(key).or_default() += 1;
                return Desk(Some((self.clone(), key)));
            }
            match state.waiting.iter_mut().find(|(of, _)| *of == key) {
                Some((_, queue)) => queue.push_back(sender),
                None => state.waiting.push_back((key, VecDeque::from([sender]))),
            }
        }
        // Whoever has a desk gives it to somebody who waits.
        desk.await.unwrap_or(Desk(None))
    }

    /// Gives a desk that a key had to the next who waits and may have it.
    fn pass_on(self: Arc<Desks>, key: Option<usize>) {
        let mut had = key;
        while let Some((key, next)) = self.give_back(had) {
            match next.send(Desk(Some((self.clone(), key)))) {
                Ok(()) => return,
                // That one's client is gone.
                Err(mut back) => (back.0, had) = (None, key),
            }
        }
    }

    /// Takes a desk from a key; gives who has it next, and notes that they do. None if nobody waits who may have it, and it is free.
    fn give_back(&self, had: Option<usize>) -> Option<(Option<usize>, oneshot::Sender<Desk>)> {
        let mut state = self.state();
        if let Some(taken) = state.taken.get_mut(&had) {
            *taken -= 1;
            if *taken == 0 {
                state.taken.remove(&had);
            }
        }
        let next = state.waiting.iter().position(|(key, _)| state.may_have_more(*key));
        let Some((key, mut queue)) = next.and_then(|at| state.waiting.remove(at)) else {
            state.free += 1;
            return None;
        };
        let next = queue.pop_front();
        if !queue.is_empty() {
            state.waiting.push_back((key, queue));
        }
        *state.taken.entry(key).or_default() += 1;
        next.map(|next| (key, next))
    }
}

impl DeskState {
    fn may_have_more(&self, key: Option<usize>) -> bool {
        self.taken.get(&key).is_none_or(|taken| *taken < self.most_of_key)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|(desks, key)| desks.pass_on(key));
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
        let desks = Desks::new(1, 1);
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

    #[tokio::test]
    async fn a_key_that_has_its_desks_leaves_others_to_others() {
        let desks = Desks::new(2, 1);
        let order = Arc::default();
        let first = KEY.scope(Some(0), desks.take()).await;
        let again = queue(&desks, Some(0), "a2", &order);
        tokio::task::yield_now().await;
        queue(&desks, Some(1), "b1", &order).await.unwrap();
        assert_eq!((&**order.lock().unwrap(), desks.state().free), (&["b1".to_string()][..], 1));
        drop(first);
        again.await.unwrap();
        assert_eq!(*order.lock().unwrap(), ["b1", "a2"]);
        let state = desks.state();
        assert_eq!((state.free, state.taken.len(), state.waiting.len()), (2, 0, 0));
    }
}
