//! Places of connections: when all are taken, one that waits for its next request makes room.

use super::io_timeout::Busy;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// All places.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    most: usize,
    /// The most connections of one address.
    most_each: usize,
    taken: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// By number: the longest there first.
    by_number: BTreeMap<u64, Who>,
    next: u64,
}

#[derive(Debug)]
struct Who {
    peer: Option<IpAddr>,
    busy: Busy,
    leave: Arc<Notify>,
}

/// A connection's place, until it is dropped.
pub(super) struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    number: u64,
    /// Whether a request is worked on.
    pub busy: Busy,
    /// Told when it has to make room.
    pub leave: Arc<Notify>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.lock().by_number.remove(&self.number);
    }
}

impl ConnectionSlots {
    /// So many, and so many of one address.
    pub fn new(most: usize, most_each: usize) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots { most: most.max(1), most_each: most_each.max(1), taken: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenConnections> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from there. None if all are taken by requests that are worked on.
    pub fn take(self: &Arc<ConnectionSlots>, peer: Option<IpAddr>) -> Option<ConnectionSlot> {
        let mut taken = self.lock();
        let own = taken.by_number.values().filter(|who| peer.is_some() && who.peer == peer).count();
        let made = match (own >= self.most_each, taken.by_number.len() >= self.most) {
            (true, _) => taken.free(|who| who.peer == peer),
            (false, true) => taken.free_of_most(),
            (false, false) => true,
        };
        if !made {
            return None;
        }
        let (busy, leave, number) = (Busy::default(), Arc::new(Notify::new()), taken.next);
        taken.next += 1;
        taken.by_number.insert(number, Who { peer, busy: busy.clone(), leave: leave.clone() });
        Some(ConnectionSlot { places: self.clone(), number, busy, leave })
    }

    /// Has a connection go that waits for its next request. False if there is none.
    pub fn make_room(&self) -> bool {
        self.lock().free_of_most()
    }
}

impl OpenConnections {
    /// The one that is longest there of those that wait and for which `may` holds leaves.
    fn free(&mut self, may: impl Fn(&Who) -> bool) -> bool {
        let waits = |who: &Who| !who.busy.load(Ordering::Relaxed) && may(who);
        let Some(number) = self.by_number.iter().find(|(_, who)| waits(who)).map(|(number, _)| *number) else {
            return false;
        };
        self.by_number.remove(&number).into_iter().for_each(|who| who.leave.notify_one());
        true
    }

    /// Closes the connection that waits longest of the address that has the most.
    fn free_of_most(&mut self) -> bool {
        let mut counts: HashMap<Option<IpAddr>, usize> = HashMap::new();
        for who in self.by_number.values().filter(|who| !who.busy.load(Ordering::Relaxed)) {
            *counts.entry(who.peer).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer);
        most.is_some_and(|peer| self.free(|who| who.peer == peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_of_the_address_with_most_make_room_and_busy_ones_stay() {
        let places = ConnectionSlots::new(4, 3);
        let [a, b] = [1, 2].map(|n| Some(IpAddr::from([10, 0, 0, n])));
        let first = [a, a, a].map(|peer| places.take(peer).unwrap());
        first[0].busy.store(true, Ordering::Relaxed);
        let left = |place: &ConnectionSlot| !places.lock().by_number.contains_key(&place.number);
        let fourth = places.take(a).unwrap();
        assert_eq!(first.each_ref().map(left), [false, true, false], "of three of one address the idle one leaves");
        let other = places.take(b).unwrap();
        let fifth = places.take(b).unwrap();
        assert_eq!(
            first.each_ref().map(left),
            [false, true, true],
            "of four in all one of the address with most leaves"
        );
        for place in [&fourth, &other, &fifth] {
            place.busy.store(true, Ordering::Relaxed);
        }
        assert!(places.take(b).is_none() && !places.make_room(), "all are busy");
        drop(fourth);
        assert!(places.take(b).is_some());
    }
}
