//! Requests that wait: higher priorities first, then users in turn, then in the order in which they came.

use pumex_serve::engine::Priority;
use std::collections::VecDeque;

/// What a request waits by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// Whose it is.
    pub user: String,
    /// Before others.
    pub priority: Priority,
}

/// Requests of one priority: users with theirs, the one whose turn it is first.
type Lane<T> = VecDeque<(String, VecDeque<T>)>;

/// Requests that wait.
#[derive(Debug)]
pub struct Queue<T> {
    /// What ran already and goes first, the oldest first.
    returned: VecDeque<T>,
    /// By priority, highest first.
    lanes: [Lane<T>; 3],
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { returned: VecDeque::new(), lanes: Default::default() }
    }
}

impl<T> Queue<T> {
    /// At the end of its user's.
    pub fn push(&mut self, ticket: Ticket, item: T) {
        let lane = match ticket.priority {
            Priority::High => 0,
            Priority::Normal => 1,
            Priority::Low => 2,
        };
        let lane = &mut self.lanes[lane];
        match lane.iter_mut().find(|(user, _)| *user == ticket.user) {
            Some((_, items)) => items.push_back(item),
            None => lane.push_back((ticket.user, VecDeque::from([item]))),
        }
    }

    /// Before all others: it ran already.
    pub fn push_back_to_front(&mut self, item: T) {
        self.returned.push_front(item);
    }

    /// The next one for which `can` holds. Its user's turn is over then.
    pub fn take(&mut self, can: impl Fn(&T) -> bool) -> Option<T> {
        if let Some(at) = self.returned.iter().position(&can) {
            return self.returned.remove(at);
        }
        for lane in &mut self.lanes {
            let found = lane.iter().enumerate().find_map(|(i, (_, items))| Some((i, items.iter().position(&can)?)));
            let Some((i, at)) = found else { continue };
            let Some((user, mut items)) = lane.remove(i) else { continue };
            let item = items.remove(at);
            if !items.is_empty() {
                lane.push_back((user, items));
            }
            return item;
        }
        None
    }

    /// All, in no order that matters.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let waiting = self.lanes.iter().flatten().flat_map(|(_, items)| items);
        self.returned.iter().chain(waiting)
    }

    /// Takes out those for which `goes` holds.
    pub fn remove(&mut self, goes: impl Fn(&T) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        let lists = self.lanes.iter_mut().flatten().map(|(_, items)| items);
        for items in std::iter::once(&mut self.returned).chain(lists) {
            for item in std::mem::take(items) {
                if goes(&item) {
                    gone.push(item);
                } else {
                    items.push_back(item);
                }
            }
        }
        self.lanes.iter_mut().for_each(|lane| lane.retain(|(_, items)| !items.is_empty()));
        gone
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(items: &[(&str, Priority, u32)]) -> Queue<u32> {
        let mut queue = Queue::default();
        for (user, priority, item) in items {
            queue.push(Ticket { user: (*user).to_string(), priority: *priority }, *item);
        }
        queue
    }

    fn all(mut queue: Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(|_| true)).collect()
    }

    #[test]
    fn users_take_turns_within_a_priority() {
        use Priority::{High, Low, Normal};
        let mixed = [
            ("a", Normal, 1),
            ("a", Normal, 2),
            ("a", Normal, 3),
            ("b", Normal, 4),
            ("c", Low, 5),
            ("c", High, 6),
            ("b", Normal, 7),
        ];
        assert_eq!(all(queue(&mixed)), [6, 1, 4, 2, 7, 3, 5]);
    }

    #[test]
    fn what_cannot_run_yet_keeps_its_place_and_what_ran_goes_first() {
        use Priority::Normal;
        let mut q = queue(&[("a", Normal, 1), ("a", Normal, 2), ("b", Normal, 3)]);
        assert_eq!(q.take(|item| *item > 1), Some(2));
        q.push_back_to_front(9);
        assert_eq!((q.len(), q.take(|item| *item == 4)), (3, None));
        assert_eq!(q.remove(|item| *item == 3), [3]);
        assert_eq!(all(q), [9, 1]);
    }
}
