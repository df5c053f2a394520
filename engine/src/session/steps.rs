//! Steps in flight: tickets, and the slot of parameters and results that each of them has.

use pumex_gguf::{Error, Result};
use pumex_step::Ticket;
use std::collections::VecDeque;

/// Steps that were started and not read yet, oldest first, with what their runner knows of each.
#[derive(Debug)]
pub struct Steps<T> {
    slots: usize,
    started: u64,
    flying: VecDeque<(Ticket, T)>,
}

impl<T> Steps<T> {
    /// Room for `slots` steps at a time.
    pub fn new(slots: usize) -> Self {
        Steps { slots, started: 0, flying: VecDeque::with_capacity(slots) }
    }

    /// The slot of the next step, `0..slots`.
    ///
    /// # Errors
    /// As many steps in flight as there are slots.
    pub fn next_slot(&self) -> Result<usize> {
        if self.flying.len() >= self.slots {
            let (most, found) = (self.slots, self.flying.len());
            return Err(Error::Request(format!("steps in flight: expected below {most}, found {found}")));
        }
        Ok((self.started % self.slots as u64) as usize)
    }

    /// A step that was started in the next slot.
    pub fn push(&mut self, step: T) -> Ticket {
        self.started += 1;
        let ticket = Ticket(self.started);
        self.flying.push_back((ticket, step));
        ticket
    }

    /// The oldest step, which must be that of `ticket`.
    ///
    /// # Errors
    /// Another ticket.
    pub fn oldest(&self, ticket: Ticket) -> Result<&T> {
        match self.flying.front() {
            Some((oldest, step)) if *oldest == ticket => Ok(step),
            _ => Err(Error::Request(format!("step {}: expected the oldest step in flight", ticket.0))),
        }
    }

    /// The newest step, if it is that of `ticket`.
    pub fn newest(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.flying.back_mut().filter(|(newest, _)| *newest == ticket).map(|(_, step)| step)
    }

    /// The oldest step is no longer in flight.
    pub fn pop(&mut self) -> Option<T> {
        self.flying.pop_front().map(|(_, step)| step)
    }

    /// All steps in flight, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.flying.iter().map(|(_, step)| step)
    }

    /// All steps in flight, oldest first, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.flying.iter_mut().map(|(_, step)| step)
    }

    /// Steps started so far.
    pub fn started_count(&self) -> u64 {
        self.started
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_finish_in_order_and_a_slot_is_free_when_its_step_is_read() {
        let mut steps = Steps::new(2);
        assert_eq!(steps.next_slot().unwrap(), 0);
        let a = steps.push('a');
        assert_eq!(steps.next_slot().unwrap(), 1);
        let b = steps.push('b');
        assert!(steps.next_slot().unwrap_err().to_string().contains("expected below 2, found 2"));
        assert!(steps.oldest(b).unwrap_err().to_string().contains("expected the oldest"));
        assert_eq!(steps.oldest(a).ok(), Some(&'a'));
        assert_eq!((steps.pop(), steps.next_slot().unwrap(), steps.started_count()), (Some('a'), 0, 2));
        assert!(steps.oldest(a).is_err(), "read once");
    }
}
