//! How a step that is listed is started: ids that a small model proposes for it, and what is done where there is no memory for it.
//!
//! A step for which there is no memory is tried again without what is kept, and then ends its own requests alone.

use super::draft::Wish;
use super::log::{LaunchLog, StepLog};
use super::refusal::refusal;
use super::settings::TestFault;
use super::worker::Worker;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::RefusalKind;
use pumex_step::Ticket;
use std::collections::BTreeSet;

impl Worker<'_> {
    /// Has the runner start the step that is listed. None if there is no memory for it, even without all that is kept: the requests that
    /// it has rows of are over then.
    pub(super) fn launch(&mut self) -> Result<Option<(Ticket, LaunchLog)>> {
        let what = match self.try_launch() {
            Err(Error::OutOfMemory(what)) => what,
            done => return done.map(Some),
        };
        tracing::warn!("out of memory: {what}; what is kept goes");
        while self.seqs.evict(self.runner, &[]) {}
        self.runner.shed();
        let what = match self.try_launch() {
            Err(Error::OutOfMemory(what)) => what,
            done => return done.map(Some),
        };
        let fits = match self.fitted {
            0 => "fewer rows of a step (-ub), slots (-np) or positions (-c) may".to_string(),
            rows => format!("steps of up to {rows} did (-ub, -np)"),
        };
        let what = format!("out of memory: {what}: a step of {} rows did not fit, {fits}", self.rows.len());
        let of = |i: &usize| self.slots[self.order[*i]].as_ref().map(|work| work.request);
        let requests: BTreeSet<u64> = self.placed.iter().filter_map(of).collect();
        requests.into_iter().for_each(|id| self.fail(id, refusal(RefusalKind::Failed, what.clone())));
        Ok(None)
    }

    fn try_launch(&mut self) -> Result<(Ticket, LaunchLog)> {
        match self.fault {
            Some(TestFault::Lost(at)) if *at == self.steps.0 => {
                *self.fault = None;
                return Err(Error::Request("a fault that was asked for".into()));
            }
            Some(TestFault::Panic(at)) if *at == self.steps.0 => {
                *self.fault = None;
                panic!("a fault that was asked for");
            }
            Some(TestFault::Memory(at, times)) if *at <= self.steps.0 && *times > 0 => {
                *times -= 1;
                return Err(Error::OutOfMemory("a fault that was asked for".into()));
            }
            _ => {}
        }
        let (ticket, launched) = match &self.log {
            None => (self.runner.start(&self.rows), LaunchLog::default()),
            Some(_) => {
                let single = self.counts.iter().filter(|count| **count == 1).count();
                StepLog::watch((&mut *self.runner, &self.rows), single, |runner, rows| runner.start(rows))
            }
        };
        Ok((ticket?, launched))
    }

    /// Has the small model propose what answers go on with.
    pub(super) fn propose(&mut self) -> Result<()> {
        let Some((draft, model)) = self.draft.as_mut().zip(self.loaded.settings.draft.as_ref()) else { return Ok(()) };
        let n_ctx = self.loaded.n_ctx().min(draft.n_ctx());
        let wish = |slot: &usize| {
            let work = self.slots[*slot].as_ref()?;
            let paused = self.running.get(&work.request).is_none_or(|r| !r.outbox.is_empty());
            let most = work.wishes(n_ctx).min(model.most);
            let wish = Wish { slot: *slot, serial: work.serial, ids: &work.ids, most };
            (!paused && most > 0 && most >= model.least && work.ids.len() <= n_ctx).then_some(wish)
        };
        let wishes: Vec<Wish<'_>> = self.order.iter().filter_map(wish).collect();
        if wishes.is_empty() {
            return Ok(());
        }
        let proposed = draft.propose(&wishes)?;
        let slots: Vec<usize> = wishes.iter().map(|wish| wish.slot).collect();
        let metrics = &mut self.shared.view().metrics;
        metrics.drafts += slots.len() as u64;
        for (slot, ids) in slots.into_iter().zip(proposed) {
            metrics.draft_tokens += ids.len() as u64;
            if let Some(work) = self.slots[slot].as_mut() {
                (work.draft, work.stood) = (ids.into_iter().collect(), 0);
            }
        }
        Ok(())
    }
}
