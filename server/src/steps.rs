//! Steps: their rows, what comes of them, and when answers end.

use super::active_request::{ActiveAnswer, ActiveRequest, Gives, PendingRow};
use super::answer::Next;
use super::refusal::{engine_failure, refusal};
use super::schedule::{share, StepNeed, StepSizes};
use super::sequences::SharedIds;
use super::worker::{send, Flight, Worker};
use pumex_engine::conversation::shift_ids;
use pumex_gguf::{Error, Result};
use pumex_serve::engine::{Event, Finish, FinishReason, Holder, RefusalKind, Timings};
use pumex_step::sample::Allowed;
use pumex_step::RowOutput;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Worker<'_> {
    /// Starts a step. False if there is nothing to start, or what is under way must be read first.
    pub(super) fn start(&mut self) -> Result<bool> {
        if self.order.is_empty() {
            return Ok(false);
        }
        let waits = |slot: &usize| self.slots[*slot].as_ref().is_some_and(|w| w.way.waits() && w.unread > w.skip);
        if !self.flying.is_empty() && self.order.iter().any(waits) {
            return Ok(false);
        }
        self.propose()?;
        if !self.fit() {
            return Ok(false);
        }
        let (asked, wrong) = self.ask();
        if self.flying.is_empty() {
            self.clock = Instant::now();
        }
        let later = asked.iter().any(|asked| asked.allowed == Allowed::Later);
        let Some((ticket, launched)) = self.launch()? else {
            wrong.into_iter().for_each(|(id, error)| self.fail(id, engine_failure(&error)));
            return Ok(false);
        };
        self.fitted = self.fitted.max(self.rows.len());
        self.flying.push_back(Flight { ticket, asked, later, launched });
        self.steps.0 += 1;
        self.note_started_step();
        wrong.into_iter().for_each(|(id, error)| self.fail(id, engine_failure(&error)));
        Ok(true)
    }

    /// Rows of the next step, without outputs, for which there are blocks. False if there are none.
    fn fit(&mut self) -> bool {
        let (mut prompts, n_ctx) = (true, self.loaded.n_ctx());
        loop {
            self.needs.clear();
            for slot in &self.order {
                let work = self.slots[*slot].as_ref();
                let need = work.map_or(StepNeed::default(), |work| {
                    let running = self.running.get(&work.request);
                    match running.is_none_or(|r| !r.outbox.is_empty()) {
                        true => StepNeed::default(),
                        false => work.need(n_ctx, running.and_then(|r| r.gate)),
                    }
                });
                let need = if need.prompt && !prompts { StepNeed::default() } else { need };
                self.needs.push(need);
            }
            let max_rows = self.runner.max_rows().max(1);
            let sizes = StepSizes { max_rows, beside: self.loaded.settings.prompt_rows.min(max_rows) };
            share(&self.needs, sizes, self.steps.0 as usize, &mut self.counts);
            self.keep_whole(max_rows);
            let mut left = max_rows - self.counts.iter().sum::<usize>();
            for (slot, count) in self.order.iter().zip(&mut self.counts).filter(|(_, count)| **count == 1) {
                let Some(work) = self.slots[*slot].as_mut() else { continue };
                work.draft.truncate(left);
                left -= work.draft.len();
                *count += work.draft.len();
            }
            self.place();
            if self.rows.is_empty() {
                return false;
            }
            if self.runner.blocks_needed(&self.rows) <= self.runner.free_blocks() {
                return true;
            }
            if self.seqs.evict(self.runner, &[]) {
                continue;
            }
            if self.slots.iter().flatten().any(|work| !work.draft.is_empty()) {
                self.slots.iter_mut().flatten().for_each(|work| work.draft.clear());
                continue;
            }
            let goes_on = self.needs.iter().any(|need| need.rows > 0 && !need.prompt);
            if prompts && goes_on && self.needs.iter().any(|need| need.prompt) {
                prompts = false;
            } else if !self.flying.is_empty() {
                return false;
            } else if !self.preempt() {
                self.end_for_lack_of_room();
            }
        }
    }

    /// Has rows that see each other stand in one step.
    fn keep_whole(&mut self, max_rows: usize) {
        for i in 0..self.counts.len() {
            let Some(work) = self.slots[self.order[i]].as_ref().filter(|work| !work.media.is_empty()) else { continue };
            let others: usize = self.counts.iter().sum::<usize>() - self.counts[i];
            if self.counts[i] > 0 {
                self.counts[i] = work.whole(self.counts[i], max_rows - others);
            }
        }
    }

    /// Lists the rows: those that are alone of their sequence first, as these attend otherwise.
    fn place(&mut self) {
        self.placed.clear();
        self.placed.extend((0..self.counts.len()).filter(|i| self.counts[*i] == 1));
        self.placed.extend((0..self.counts.len()).filter(|i| self.counts[*i] > 1));
        self.rows.clear();
        for i in &self.placed {
            self.slots[self.order[*i]].iter().for_each(|work| work.rows(self.counts[*i], &mut self.rows));
        }
    }

    /// Says what the last rows give, and notes what is under way. Also gives requests that cannot go on behind this step.
    fn ask(&mut self) -> (Vec<PendingRow>, Vec<(u64, Error)>) {
        let (mut asked, mut at) = (Vec::with_capacity(self.order.len()), 0);
        let mut wrong = Vec::new();
        for (slot, count) in self.placed.iter().map(|i| (self.order[*i], self.counts[*i])) {
            at += count;
            let Some(work) = self.slots[slot].as_mut() else { continue };
            let gated = self.running.get(&work.request).is_some_and(|r| r.gate.is_some());
            let outputs = if gated { 0 } else { work.outputs(count) };
            let first = at - count;
            for (i, row) in
                self.rows[first..first + work.reported_rows(count).min(count - outputs)].iter_mut().enumerate()
            {
                row.output = RowOutput::Logits;
                let (gives, told) = (Gives::Logits, Some(work.fed + i));
                asked.push(PendingRow { slot, serial: work.serial, allowed: Allowed::All, gives, told });
            }
            for row in &mut self.rows[at - outputs..at] {
                match work.output(self.runner, row.token) {
                    Ok((output, allowed)) => {
                        row.output = output;
                        let gives = Gives::of(&row.output);
                        asked.push(PendingRow { slot, serial: work.serial, allowed, gives, told: None });
                        work.unread += 1;
                    }
                    Err(error) => {
                        wrong.push((work.request, error));
                        break;
                    }
                }
            }
            work.fed += count;
            work.drafted.0 += work.draft.len();
            work.checking |= !work.draft.is_empty();
        }
        (asked, wrong)
    }

    /// What follows from a step that was started: progress, prompts that are computed.
    fn note_started_step(&mut self) {
        let (mut open, mut kept) = (Vec::new(), Vec::new());
        for (i, slot) in self.order.iter().enumerate().filter(|(i, _)| self.needs.get(*i).is_some_and(|n| n.prompt)) {
            let Some(work) = self.slots[*slot].as_mut().filter(|_| self.counts[i] > 0) else { continue };
            let Some(running) = self.running.get_mut(&work.request) else { continue };
            if work.marks.front().is_some_and(|mark| *mark <= work.fed) {
                work.marks.pop_front();
                kept.push((work.seq, running.job.owner.clone(), work.ids[..work.fed].to_vec(), work.shares()));
            }
            if running.job.progress && work.answer.generated == 0 && running.prompt_done.is_none() {
                let (total, cached) = (running.job.prompt_tokens, running.job.cached.unwrap_or(0));
                let ms = running.job.started.map_or(0.0, |at| at.elapsed().as_secs_f64() * 1e3);
                send(running, Event::Progress { total, cached, processed: work.fed.min(total), ms });
            }
            let end = running.gate.unwrap_or(work.ids.len());
            if work.fed >= end {
                let ids = work.ids[..end].to_vec();
                open.push((work.request, work.seq, running.job.owner.clone(), ids, work.shares()));
            }
        }
        for (seq, owner, ids, steady) in kept {
            self.seqs.checkpoint(self.runner, seq, &owner, SharedIds { ids: &ids, steady });
        }
        for (request, seq, owner, ids, steady) in open {
            if self.loaded.sources.is_none() {
                self.seqs.offer(seq, &owner, SharedIds { ids: &ids, steady });
            }
            self.open_gate(request);
        }
    }

    /// Tells the runner which ids are allowed in the newest step.
    pub(super) fn tell_allowed(&mut self) -> Result<()> {
        let Some(flight) = self.flying.back_mut().filter(|flight| flight.later) else { return Ok(()) };
        flight.later = false;
        let ticket = flight.ticket;
        let all: Arc<[u32]> = vec![u32::MAX; self.runner.n_vocab().div_ceil(32)].into();
        let (mut told, mut wrong) = (Vec::with_capacity(flight.asked.len()), Vec::new());
        for asked in &flight.asked {
            let of = |work: &&mut ActiveAnswer| work.serial == asked.serial && work.skip == 0;
            let work = self.slots[asked.slot].as_mut().filter(of);
            told.push(match work.filter(|_| asked.allowed == Allowed::Later) {
                None => Allowed::These(all.clone()),
                Some(work) => match work.answer.allowed_ids() {
                    Ok(Allowed::These(bits)) => Allowed::These(bits),
                    Ok(_) => Allowed::These(all.clone()),
                    Err(error) => {
                        wrong.push((work.request, error));
                        Allowed::These(all.clone())
                    }
                },
            });
        }
        self.runner.allow(ticket, &told)?;
        wrong.into_iter().for_each(|(id, error)| self.fail(id, engine_failure(&error)));
        Ok(())
    }

    /// Waits for the oldest step and hands out what came of it.
    pub(super) fn read(&mut self) -> Result<()> {
        let Some(flight) = self.flying.pop_front() else { return Ok(()) };
        let waits = self.log.as_ref().map(|_| Instant::now());
        let output = self.runner.finish_each(flight.ticket)?;
        let waited = waits.map_or(Duration::ZERO, |since| since.elapsed());
        self.steps.1 += 1;
        let (mut logits, mut lists) = (0, 0);
        let mut last: Option<Vec<f32>> = None;
        for (i, asked) in flight.asked.iter().enumerate() {
            let at = (i, logits, lists);
            logits += usize::from(asked.gives == Gives::Logits);
            lists += usize::from(asked.gives == Gives::List);
            let slot = asked.slot;
            let Some(work) = self.slots[slot].as_mut().filter(|work| work.serial == asked.serial) else { continue };
            if let Some(behind) = asked.told {
                let n_vocab = self.runner.n_vocab();
                let row = output.logits.get(at.1 * n_vocab..(at.1 + 1) * n_vocab);
                if let (Some(row), Some(next)) = (row, work.ids.get(behind + 1)) {
                    work.answer.note_prompt(behind, *next, row);
                }
                continue;
            }
            work.unread -= 1;
            if work.skip > 0 {
                work.skip -= 1;
                continue;
            }
            let id = match asked.gives {
                _ if output.nan.iter().any(|nan| nan.output == i) => Err(Error::nan_logits(i)),
                Gives::Id => output.ids.get(i).copied().ok_or_else(|| Error::nan_logits(i)),
                Gives::List | Gives::Logits => {
                    let n_vocab = self.runner.n_vocab();
                    let listed = output.shortlists.get(at.2).filter(|_| asked.gives == Gives::List);
                    match listed.and_then(|list| work.answer.sampler.sample_listed(list, &asked.allowed)) {
                        Some(id) => Ok(id),
                        None => {
                            if asked.gives == Gives::List && last.is_none() {
                                last = Some(self.runner.last_logits()?);
                            }
                            let all = last.as_ref().map_or((&output.logits[..], at.1), |all| (&all[..], at.0));
                            let row = all.0.get(all.1 * n_vocab..(all.1 + 1) * n_vocab);
                            row.and_then(|row| choose_id(work, row, &asked.allowed)).ok_or_else(|| Error::nan_logits(i))
                        }
                    }
                }
            };
            match id {
                Ok(id) => self.take(slot, id),
                Err(error) => {
                    // What is kept of it would spoil what goes on from there.
                    work.fed = 0;
                    let request = work.request;
                    self.fail(request, engine_failure(&error));
                }
            }
        }
        self.settle();
        self.count_step(flight.asked.iter().filter(|asked| asked.told.is_none()).count());
        self.log.iter_mut().for_each(|log| log.line(&flight.launched, waited, &*self.runner));
        Ok(())
    }

    /// An answer's next id is known.
    fn take(&mut self, slot: usize, id: u32) {
        let loaded = self.loaded.clone();
        let Some(work) = self.slots[slot].as_mut() else { return };
        let request = work.request;
        let mut told = std::mem::take(&mut self.told);
        let checking = work.checking;
        let stands = checking && work.draft.pop_front() == Some(id);
        if checking {
            // The runner's rows behind this id are the answer's if it is what was proposed.
            work.fed = work.ids.len() + usize::from(stands);
            work.drafted.1 += usize::from(stands);
        }
        work.answer.tell_prompt(&loaded.tokenizer, &work.ids[..work.prompt.min(work.ids.len())], &mut told);
        let next = work.answer.take(&loaded.tokenizer, id, &mut told);
        work.ids.push(id);
        if checking && !stands && work.reject() {
            work.fed = self.runner.forget(work.seq, work.fed as u32).min(work.fed);
        }
        if stands {
            let metrics = &mut self.shared.view().metrics;
            metrics.draft_accepted += 1;
            if metrics.draft_accepted_at.len() <= work.stood {
                metrics.draft_accepted_at.resize(work.stood + 1, 0);
            }
            metrics.draft_accepted_at[work.stood] += 1;
            work.stood += 1;
        }
        if let Some(running) = self.running.get_mut(&request) {
            running.prompt_done.get_or_insert_with(Instant::now);
            told.drain(..).for_each(|event| send(running, event));
        }
        self.told = told;
        match next {
            Err(error) => self.fail(request, refusal(RefusalKind::Failed, error.to_string())),
            Ok(Next::Over(reason)) => self.end(slot, reason),
            Ok(Next::Forced(ids)) => {
                work.ids.extend(ids);
                work.prompt = work.ids.len();
                if work.reject() {
                    work.fed = self.runner.forget(work.seq, work.fed as u32).min(work.fed);
                }
                if work.ids.len() > loaded.n_ctx() {
                    self.end(slot, FinishReason::ContextFull);
                }
            }
            Ok(Next::Goes) if work.is_full(loaded.n_ctx()) => self.full(slot),
            Ok(Next::Goes) => {}
        }
    }

    /// An answer's context is full: it goes on with less, or ends.
    fn full(&mut self, slot: usize) {
        let n_ctx = self.loaded.n_ctx();
        let Some(work) = self.slots[slot].as_mut() else { return };
        let job = self.running.get(&work.request).map(|running| &running.job);
        let stay = job.and_then(|job| Some(shift_ids(&work.ids, job.keep?.min(n_ctx / 4 * 3), job.discard)));
        match stay.filter(|stay| !stay.is_empty() && stay.len() < n_ctx) {
            None => self.end(slot, FinishReason::ContextFull),
            Some(stay) => {
                let same = stay.iter().zip(&work.ids).take_while(|(a, b)| a == b).count().min(stay.len() - 1);
                self.seqs.withdraw(work.seq);
                work.fed = self.runner.forget(work.seq, same as u32).min(same);
                work.steady = work.steady.map(|given| given.min(same + 1));
                (work.prompt, work.ids) = (stay.len(), stay);
                work.answer.truncated = true;
                work.marks.clear();
            }
        }
    }

    /// An answer is over.
    fn end(&mut self, slot: usize, reason: FinishReason) {
        let Some(mut work) = self.leave(slot) else { return };
        let mut told = std::mem::take(&mut self.told);
        let reason = work.answer.finish(reason, &mut told);
        let Some(running) = self.running.get_mut(&work.request) else { return };
        told.drain(..).for_each(|event| send(running, event));
        self.told = told;
        let finish = finish(&work, running, reason);
        {
            let mut view = self.shared.view();
            view.metrics.predicted_seconds += finish.timings.predicted_ms / 1e3;
            view.metrics.prompt_seconds += if work.answer.number == 0 { finish.timings.prompt_ms / 1e3 } else { 0.0 };
            view.metrics.n_tokens_max = view.metrics.n_tokens_max.max(finish.held as u64);
            if let Some(shown) = view.slots.get_mut(slot) {
                (shown.timings, shown.generated) = (finish.timings, work.answer.generated);
            }
        }
        send(running, Event::Finished { answer: work.answer.number, finish });
        running.left -= 1;
        if running.left == 0 {
            self.shared.view().metrics.requests_done += 1;
            if let Some(running) = self.running.remove(&work.request).filter(|r| !r.outbox.is_empty()) {
                self.ending.push(running);
            }
        }
        self.show();
    }

    /// Counts a step that was read.
    fn count_step(&mut self, answers: usize) {
        let (now, free) = (Instant::now(), self.runner.free_blocks());
        let seconds = (now - self.clock).as_secs_f64();
        self.clock = now;
        let mut view = self.shared.view();
        let metrics = &mut view.metrics;
        metrics.steps += 1;
        metrics.step_seconds += seconds;
        metrics.busy_slot_steps += self.order.len() as u64;
        metrics.predicted_tokens += answers as u64;
        metrics.blocks_used = metrics.blocks_total.saturating_sub(free as u64);
        for slot in &self.order {
            let Some(work) = &self.slots[*slot] else { continue };
            let Some(shown) = view.slots.get_mut(*slot) else { continue };
            shown.held = work.fed;
            shown.prompt_done = work.fed.min(shown.prompt_tokens);
            shown.generated = work.answer.generated;
            shown.remaining = work.answer.limit.map(|limit| limit.saturating_sub(work.answer.generated));
        }
    }

    /// Shows who is at work, and what idle slots hold.
    pub(super) fn show(&mut self) {
        let (waiting, running) = (self.queue.len() as u64, self.running.len() as u64);
        let (free, kept) = (self.runner.free_blocks() as u64, self.seqs.kept_count());
        let mut view = self.shared.view();
        view.metrics.requests_running = running;
        view.metrics.requests_waiting = waiting;
        if running + waiting == 0 {
            view.idle_since.get_or_insert_with(Instant::now);
        }
        view.metrics.blocks_used = view.metrics.blocks_total.saturating_sub(free);
        view.metrics.blocks_cached = if self.running.is_empty() { view.metrics.blocks_used } else { kept as u64 };
        for (i, shown) in view.slots.iter_mut().enumerate() {
            shown.busy = self.slots.get(i).is_some_and(Option::is_some);
            if !shown.busy {
                shown.held = self.seqs.slot(i).1.len();
            }
        }
    }

    /// Shows a request that started in these slots.
    pub(super) fn show_started(&mut self, id: u64, slots: &[usize]) {
        self.show();
        let Some(running) = self.running.get(&id) else { return };
        let mut view = self.shared.view();
        for slot in slots {
            let Some(shown) = view.slots.get_mut(*slot) else { continue };
            shown.request = Some(id);
            shown.key = Holder::key_of(&running.job.ticket.user).to_string();
            shown.settings = Some(running.job.settings.clone());
            shown.prompt_tokens = running.job.prompt_tokens;
            (shown.prompt_done, shown.generated, shown.held) = (0, 0, 0);
            shown.timings = Timings::default();
        }
    }
}

/// Chooses an id of one row of logits, `[vocab]`.
fn choose_id(work: &mut ActiveAnswer, logits: &[f32], allowed: &Allowed) -> Option<u32> {
    let answer = &mut work.answer;
    let id = answer.sampler.sample_of(logits, allowed.clone())?;
    if answer.after_chain {
        let left = answer.sampler.left(id);
        let of = |id: u32| left.iter().find(|(known, _)| *known == id).map_or(0.0, |(_, p)| *p);
        let most = answer.sampler.options().logprobs.unwrap_or(0);
        let top = left.iter().filter(|(_, p)| *p > 0.0).take(most).map(|(id, p)| (*id, p.ln() as f32)).collect();
        answer.note(of(id).ln() as f32, top);
    }
    Some(id)
}

/// How an answer went.
fn finish(work: &ActiveAnswer, running: &ActiveRequest, reason: FinishReason) -> Finish {
    let (job, answer) = (&running.job, &work.answer);
    let ms = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
        (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64() * 1e3,
        _ => 0.0,
    };
    let cached = job.cached.unwrap_or(0);
    let timings = Timings {
        queue_ms: ms(Some(job.queued), job.started),
        prompt_tokens: job.prompt_tokens - cached,
        prompt_ms: ms(job.started, answer.times.map(|(first, _)| first)),
        cached_tokens: cached,
        predicted_tokens: answer.generated,
        predicted_ms: ms(answer.times.map(|(first, _)| first), answer.times.map(|(_, last)| last)),
        draft_tokens: work.drafted.0,
        draft_accepted: work.drafted.1,
    };
    Finish {
        truncated: answer.truncated || reason == FinishReason::ContextFull,
        reason,
        prompt_tokens: job.prompt_tokens,
        cached_tokens: cached,
        completion_tokens: answer.generated,
        reasoning_tokens: answer.reasoned,
        has_new_line: answer.has_new_line,
        held: work.fed.min(work.ids.len()),
        timings,
    }
}
