//! What a template may use before it is stopped.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::error::{Error, Result};

/// Bounds of one rendering. None of them is near what a real template needs.
#[derive(Clone, Copy, Debug)]
pub struct RenderLimits {
    /// Steps of evaluation; reading 32 bytes of a string counts as one.
    pub steps: u64,
    /// Bytes of all strings and lists that are made, together.
    pub bytes: usize,
    /// Bytes of a single string, the output among them.
    pub string: usize,
    /// Expressions, statements and macros inside each other.
    pub depth: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        RenderLimits { steps: 30_000_000, bytes: 512 << 20, string: 64 << 20, depth: 1500 }
    }
}

/// What is left of the limits. Shared by everything that one rendering does.
pub(crate) struct RenderBudget {
    limits: RenderLimits,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    depth: Cell<usize>,
    /// What was made to hold values: a template can have one hold itself, which is then nobody else's to free.
    made: RefCell<Vec<Weak<dyn Holds>>>,
}

/// Something that holds values.
pub(crate) trait Holds {
    /// Lets go of them.
    fn clear(&self);
}

impl Drop for RenderBudget {
    fn drop(&mut self) {
        let made = std::mem::take(self.made.get_mut());
        made.iter().filter_map(Weak::upgrade).for_each(|holder| holder.clear());
    }
}

impl RenderBudget {
    pub fn new(limits: RenderLimits) -> Self {
        RenderBudget {
            limits,
            steps: Cell::new(limits.steps),
            bytes: Cell::new(limits.bytes),
            depth: Cell::new(0),
            made: RefCell::default(),
        }
    }

    /// Remembers what holds values, to have it let go of them when the rendering is over.
    pub fn register_holder<T: Holds + 'static>(&self, holder: T) -> Rc<T> {
        let holder = Rc::new(holder);
        let weak: Weak<T> = Rc::downgrade(&holder);
        self.made.borrow_mut().push(weak);
        holder
    }

    /// Pays for steps.
    pub fn work(&self, steps: usize) -> Result<()> {
        match self.steps.get().checked_sub(steps as u64) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => Err(Error::Limit(format!("stopped after {} steps: does it end?", self.limits.steps))),
        }
    }

    /// Pays for looking through bytes.
    pub fn scan(&self, bytes: usize) -> Result<()> {
        self.work(1 + bytes / 32)
    }

    /// Pays for bytes of memory.
    pub fn take(&self, bytes: usize) -> Result<()> {
        match self.bytes.get().checked_sub(bytes) {
            Some(left) => {
                self.bytes.set(left);
                Ok(())
            }
            None => Err(Error::Limit(format!("made over {} MiB of strings and lists", self.limits.bytes >> 20))),
        }
    }

    /// Pays for a list or dict that gets so many more elements.
    pub fn elements(&self, count: usize) -> Result<()> {
        self.work(count / 8)?;
        self.take(count.saturating_mul(64))
    }

    /// Refuses a string of more bytes than one may have.
    pub fn string(&self, bytes: usize) -> Result<()> {
        if bytes > self.limits.string {
            return Err(Error::Limit(format!("made a string of over {} MiB", self.limits.string >> 20)));
        }
        Ok(())
    }

    /// Goes one level deeper until the guard is dropped.
    pub fn deeper(&self) -> Result<Deeper<'_>> {
        let depth = self.depth.get() + 1;
        if depth > self.limits.depth {
            return Err(Error::Limit("recursion too deep".to_string()));
        }
        self.depth.set(depth);
        Ok(Deeper(self))
    }
}

/// A level of recursion.
pub(crate) struct Deeper<'a>(&'a RenderBudget);

impl Drop for Deeper<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::{RenderBudget, RenderLimits};
    use crate::value::Value;
    use std::rc::Rc;

    #[test]
    fn what_holds_itself_is_gone_with_the_rendering() {
        let budget = RenderBudget::new(RenderLimits::default());
        let (list, map) = (Value::list(&budget, vec![]).unwrap(), Value::dict(&budget, []).unwrap());
        let (Value::List(l), Value::Dict(m)) = (&list, &map) else { panic!("a list and a dict") };
        l.0.borrow_mut().extend([list.clone(), map.clone()]);
        m.0.borrow_mut().insert(Value::Int(1), list.clone()).unwrap();
        let held = (Rc::downgrade(l), Rc::downgrade(m));
        drop((list, map));
        assert!(held.0.upgrade().is_some(), "each holds the other");
        drop(budget);
        assert!(held.0.upgrade().is_none() && held.1.upgrade().is_none());
    }
}
