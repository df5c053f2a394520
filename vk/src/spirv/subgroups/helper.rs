//! Functions in place of operations over subgroups.

use super::{op, Rewriter, SEMANTICS, WORKGROUP_SCOPE};

/// Threads whose values one thread puts together alone; of more, as many threads put together some each before.
const ALONE: u32 = 32;
/// So many threads do so.
const TOGETHER: u32 = 16;

/// A function; `of` is the type of what it takes and gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// All threads' values, put together by an instruction, or one of GLSL's.
    Reduce { by: u32, of: u32, ext: bool },
    /// A thread's value.
    Pick { of: u32 },
}

impl Rewriter {
    /// The function's id; none where it would be of another type than numbers of 32 bits.
    pub(super) fn helper(&mut self, helper: Helper) -> Option<u32> {
        if let Some((_, id)) = self.helpers.iter().find(|(known, _)| *known == helper) {
            return Some(*id);
        }
        let (Helper::Reduce { of, .. } | Helper::Pick { of }) = helper;
        if ![self.known.uint, self.known.int, self.known.float].contains(&Some(of)) {
            return None;
        }
        if self.to_word == 0 {
            self.declare_scratch();
        }
        let (function, x) = (self.ids.fresh(), self.ids.fresh());
        self.helpers.push((helper, function));
        match helper {
            Helper::Reduce { by, ext, .. } => {
                let by = if ext { JoinBy::Ext(self.known.ext?, by) } else { JoinBy::Op(by) };
                self.begin(function, of, &[(of, x)]);
                self.reduce(of, x, by);
            }
            Helper::Pick { .. } => {
                let (uint, from) = (self.uint_type(), self.ids.fresh());
                self.begin(function, of, &[(of, x), (uint, from)]);
                self.share(of, x);
                let last = self.uint(self.threads - 1);
                let near = self.ids.fresh();
                // A thread that is not there would be read beyond the end.
                self.made.put(op::EXT_INST, &[uint, near, self.known.ext?, 38, from, last]);
                let picked = self.word(of, near);
                self.made.put(op::RETURN_VALUE, &[picked]);
            }
        }
        self.made.put(op::FUNCTION_END, &[]);
        Some(function)
    }

    fn begin(&mut self, function: u32, of: u32, parameters: &[(u32, u32)]) {
        let types: Vec<u32> = std::iter::once(of).chain(parameters.iter().map(|p| p.0)).collect();
        let (ids, globals) = (&mut self.ids, &mut self.globals);
        let whole = *self.known.functions.entry(types).or_insert_with_key(|types| {
            let id = ids.fresh();
            globals.put(op::TYPE_FUNCTION, &[&[id], &types[..]].concat());
            id
        });
        self.made.put(op::FUNCTION, &[of, function, 0, whole]);
        for (of, id) in parameters {
            self.made.put(op::FUNCTION_PARAMETER, &[*of, *id]);
        }
        self.label();
    }

    fn label(&mut self) -> u32 {
        let id = self.ids.fresh();
        self.made.put(op::LABEL, &[id]);
        id
    }

    fn barrier(&mut self) {
        let (scope, semantics) = (self.uint(WORKGROUP_SCOPE), self.uint(SEMANTICS));
        self.made.put(op::CONTROL_BARRIER, &[scope, scope, semantics]);
    }

    /// Where a thread's word is.
    fn place(&mut self, thread: u32) -> u32 {
        let id = self.ids.fresh();
        self.made.put(op::ACCESS_CHAIN, &[self.to_word, id, self.scratch, thread]);
        id
    }

    /// A thread's word.
    fn word(&mut self, of: u32, thread: u32) -> u32 {
        let (uint, at, word) = (self.uint_type(), self.place(thread), self.ids.fresh());
        self.made.put(op::LOAD, &[uint, word, at]);
        self.cast(of, word, uint)
    }

    fn cast(&mut self, to: u32, x: u32, from: u32) -> u32 {
        if to == from {
            return x;
        }
        let id = self.ids.fresh();
        self.made.put(op::BITCAST, &[to, id, x]);
        id
    }

    fn put_word(&mut self, thread: u32, of: u32, x: u32) {
        let (uint, at) = (self.uint_type(), self.place(thread));
        let word = self.cast(uint, x, of);
        self.made.put(op::STORE, &[at, word]);
    }

    /// Has every thread tell its value, once all have read what was told before. The thread's number.
    fn share(&mut self, of: u32, x: u32) -> u32 {
        let (uint, own) = (self.uint_type(), self.ids.fresh());
        self.made.put(op::LOAD, &[uint, own, self.index]);
        self.barrier();
        self.put_word(own, of, x);
        self.barrier();
        own
    }

    fn join(&mut self, of: u32, by: JoinBy, a: u32, b: u32) -> u32 {
        let id = self.ids.fresh();
        match by {
            JoinBy::Op(by) => self.made.put(by, &[of, id, a, b]),
            JoinBy::Ext(set, by) => self.made.put(op::EXT_INST, &[of, id, set, by, a, b]),
        }
        id
    }

    /// A function's body: all threads put the same values together in the same order, and come to the same.
    fn reduce(&mut self, of: u32, x: u32, by: JoinBy) {
        let own = self.share(of, x);
        let mut left = self.threads;
        if left > ALONE {
            left = TOGETHER;
            let (uint, bool) = (self.uint_type(), self.bool_type());
            let [few, step, end] = [TOGETHER, TOGETHER, self.threads].map(|n| self.uint(n));
            let [few_there, begin, behind] = [(); 3].map(|()| self.ids.fresh());
            self.made.put(op::U_LESS_THAN, &[bool, few_there, own, few]);
            self.made.put(op::SELECTION_MERGE, &[behind, 0]);
            self.made.put(op::BRANCH_CONDITIONAL, &[few_there, begin, behind]);
            self.made.put(op::LABEL, &[begin]);
            let next = self.ids.fresh();
            self.made.put(op::I_ADD, &[uint, next, own, step]);
            let some = self.fold((of, by), x, begin, [next, step, end]);
            self.put_word(own, of, some);
            self.made.put(op::BRANCH, &[behind]);
            self.made.put(op::LABEL, &[behind]);
            self.barrier();
        }
        let [zero, one, end] = [0, 1, left].map(|n| self.uint(n));
        let block = self.ids.fresh();
        self.made.put(op::BRANCH, &[block]);
        self.made.put(op::LABEL, &[block]);
        let first = self.word(of, zero);
        let all = self.fold((of, by), first, block, [one, one, end]);
        self.made.put(op::RETURN_VALUE, &[all]);
    }

    /// A loop over threads `from`, `from + step`, ..., below `end`, after block `before`: `first` and their words put together.
    fn fold(&mut self, (of, by): (u32, JoinBy), first: u32, before: u32, [from, step, end]: [u32; 3]) -> u32 {
        let (uint, bool) = (self.uint_type(), self.bool_type());
        let [head, test, body, again, merge] = [(); 5].map(|()| self.ids.fresh());
        let [thread, next, so_far, joined, goes_on] = [(); 5].map(|()| self.ids.fresh());
        self.made.put(op::BRANCH, &[head]);
        self.made.put(op::LABEL, &[head]);
        self.made.put(op::PHI, &[uint, thread, from, before, next, again]);
        self.made.put(op::PHI, &[of, so_far, first, before, joined, again]);
        self.made.put(op::LOOP_MERGE, &[merge, again, 0]);
        self.made.put(op::BRANCH, &[test]);
        self.made.put(op::LABEL, &[test]);
        self.made.put(op::U_LESS_THAN, &[bool, goes_on, thread, end]);
        self.made.put(op::BRANCH_CONDITIONAL, &[goes_on, body, merge]);
        self.made.put(op::LABEL, &[body]);
        let word = self.word(of, thread);
        let sum = self.join(of, by, so_far, word);
        self.made.put(op::COPY_OBJECT, &[of, joined, sum]);
        self.made.put(op::BRANCH, &[again]);
        self.made.put(op::LABEL, &[again]);
        self.made.put(op::I_ADD, &[uint, next, thread, step]);
        self.made.put(op::BRANCH, &[head]);
        self.made.put(op::LABEL, &[merge]);
        so_far
    }
}

/// How two values become one.
#[derive(Clone, Copy)]
pub(super) enum JoinBy {
    Op(u32),
    Ext(u32, u32),
}
