//! Which requests start: those for which there is a slot, a sequence and room for the prompt.

use super::active_request::{ActiveAnswer, ActiveRequest, SamplingMode};
use super::prefix::PrefixOwner;
use super::refusal::{public_text, refusal, too_long};
use super::request::{Job, JobAnswer};
use super::sequences::PrefixSearch;
use super::worker::{send, Worker};
use pumex_engine::session::KV_BLOCK;
use pumex_serve::engine::{Event, Refusal, RefusalKind};
use pumex_step::{whole, Media};
use std::collections::VecDeque;
use std::time::Instant;

impl Worker<'_> {
    /// Starts requests as long as there is room.
    pub(super) fn admit(&mut self) {
        while !self.queue.is_empty() && self.slots.iter().any(Option::is_none) {
            let Worker { queue, slots, .. } = self;
            let idle = |slot: usize| slots.get(slot).is_some_and(Option::is_none);
            let Some(job) = queue.take(|job| job.slot.is_none_or(idle)) else { return };
            if let Err(job) = self.start_job(job) {
                self.queue.push_back_to_front(job);
                return;
            }
        }
    }

    /// Slots for a request's answers.
    fn places(&self, job: &Job) -> Option<Vec<usize>> {
        if let Some(slot) = job.slot {
            return Some(vec![slot]);
        }
        let mut places: Vec<usize> = Vec::new();
        for part in &job.parts {
            let idle = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_none() && !places.contains(slot));
            places.push(self.seqs.best_slot(idle, &job.owner, &part.ids)?);
        }
        Some(places)
    }

    /// Starts a request, or gives it back if it has to wait.
    fn start_job(&mut self, mut job: Box<Job>) -> Result<(), Box<Job>> {
        let Some(places) = self.places(&job) else { return Err(job) };
        let first = &job.parts[0].ids;
        // Answers that ran already have texts of their own behind the prompt.
        let common = |ids: &[u32]| first.iter().zip(ids).take_while(|(a, b)| a == b).count();
        let shared = job.parts.iter().map(|part| common(&part.ids)).min().unwrap_or(0);
        let wanted = if job.parts.len() > 1 { &first[..shared] } else { &first[..] };
        let search = PrefixSearch { owner: &job.owner, slot: job.slot, ids: wanted, steady: job.steady.is_some() };
        let known = if job.uses_kept { self.seqs.find_prefix(&*self.runner, search) } else { None };
        // Media are fed as wholes.
        let media = Media::find(&job.media, first);
        let known = known.map(|(seq, n)| (seq, media.cut_before(n))).filter(|(_, n)| *n > 0);
        let shared = media.cut_before(shared);
        if !self.make_room(&job, known) {
            return Err(job);
        }
        let forked = known.map(|(seq, _)| seq);
        let mut seqs: Vec<u32> = Vec::new();
        for _ in &job.parts {
            match self.seqs.take(self.runner, forked.as_slice()) {
                Some(seq) => seqs.push(seq),
                None => {
                    seqs.into_iter().for_each(|seq| self.seqs.free(self.runner, seq));
                    return Err(job);
                }
            }
        }
        for seq in &seqs {
            if let Err(error) = self.runner.set_adapter_scales(*seq, &job.scales) {
                seqs.into_iter().for_each(|seq| self.seqs.free(self.runner, seq));
                self.refuse_job(&job, refusal(RefusalKind::Failed, format!("lora: {}", public_text(&error))));
                return Ok(());
            }
        }
        let cached = self.fork_sequence(known, seqs[0]);
        if job.started.is_none() {
            self.stop_waiting(1);
        }
        job.started.get_or_insert_with(Instant::now);
        let fresh = job.cached.is_none();
        let mut marks = match fresh && !self.loaded.goes_back && self.loaded.sources.is_none() {
            true if job.steady.is_some() => {
                VecDeque::from_iter(Some(whole(wanted.len(), wanted.len())).filter(|mark| *mark > cached))
            }
            true => self.marks(&job.owner, wanted, cached),
            false => VecDeque::new(),
        };
        marks.retain(|mark| media.cut_before(*mark) == *mark);
        let source = job.source;
        let gate = (job.parts.len() > 1).then(|| media.cut_before(shared.saturating_sub(1)));
        let id = job.id;
        let parts = std::mem::take(&mut job.parts);
        let left = parts.len();
        for (at, JobAnswer { ids, answer }) in parts.into_iter().enumerate() {
            self.serial += 1;
            let work = ActiveAnswer {
                serial: self.serial,
                request: id,
                seq: seqs[at],
                source,
                fed: if at == 0 { cached } else { 0 },
                prompt: ids.len(),
                steady: job.steady,
                media: Media::find(&job.media, &ids),
                ids,
                unread: 0,
                skip: 0,
                parked: at > 0,
                draft: VecDeque::new(),
                checking: false,
                drafted: (0, 0),
                stood: 0,
                marks: std::mem::take(&mut marks),
                way: SamplingMode::of(self.runner, &answer),
                answer,
            };
            self.slots[places[at]] = Some(work);
            self.order.push(places[at]);
        }
        if fresh {
            job.cached = Some(cached);
        }
        let mut running = ActiveRequest {
            slots: places.clone(),
            left,
            outbox: std::mem::take(&mut job.backlog),
            stalled: None,
            age: self.serial,
            gate,
            prompt_done: None,
            job: *job,
        };
        if fresh {
            self.tell_started(&mut running, cached);
        }
        self.running.insert(id, running);
        if gate.is_some_and(|gate| cached >= gate) {
            self.open_gate(id);
        }
        self.show_started(id, &places);
        Ok(())
    }

    /// Tells a request that waited, and waits no more, why it does not start.
    fn refuse_job(&mut self, job: &Job, why: Refusal) {
        self.stop_waiting(usize::from(job.started.is_none()));
        self.shared.view().metrics.requests_failed += 1;
        // Its reader may be gone.
        let _ = job.events.try_send(Event::Failed(why));
    }

    fn tell_started(&mut self, running: &mut ActiveRequest, cached: usize) {
        let job = &running.job;
        let (prompt_tokens, settings, prompt) = (job.prompt_tokens, job.settings.clone(), job.prompt.clone());
        let (slots, at) = (running.slots.clone(), job.started.unwrap_or_else(Instant::now));
        let started = Event::Started { slots, prompt_tokens, cached_tokens: cached, settings, prompt, at };
        send(running, started);
        if running.job.progress {
            send(running, Event::Progress { total: prompt_tokens, cached, processed: cached, ms: 0.0 });
        }
        let mut view = self.shared.view();
        view.metrics.prompt_tokens_cached += cached as u64;
        view.metrics.prompt_tokens += (prompt_tokens - cached) as u64;
    }

    /// Frees blocks for a prompt by giving up what is kept. False if it has to wait for others to end.
    fn make_room(&mut self, job: &Job, known: Option<(u32, usize)>) -> bool {
        let common = known.map_or(0, |(_, n)| n);
        let prompt = (job.parts[0].ids.len() - common).div_ceil(KV_BLOCK) + 1;
        let more: usize =
            job.parts[1..].iter().map(|p| (p.ids.len() - job.prompt_tokens.min(p.ids.len())) / KV_BLOCK + 2).sum();
        // Those at work may soon need a block each.
        let needed = prompt + more + self.order.len();
        while self.runner.free_blocks() < needed && self.seqs.evict(self.runner, known.map(|(seq, _)| seq).as_slice()) {
        }
        self.runner.free_blocks() >= needed || self.order.is_empty()
    }

    /// Has a sequence begin with what another one holds; gives how many ids.
    fn fork_sequence(&mut self, known: Option<(u32, usize)>, to: u32) -> usize {
        let Some((from, n)) = known else { return 0 };
        match self.runner.fork(from, to, n as u32) {
            Ok(()) => {
                self.seqs.note_fork(self.runner, from, n, !self.loaded.goes_back);
                n
            }
            // A state that cannot go back.
            Err(_) => 0,
        }
    }

    /// Where a prompt is kept as it is computed, of a model that cannot go back: where others went on otherwise, and before its last id,
    /// which is computed again where the same prompt comes.
    fn marks(&self, owner: &PrefixOwner, ids: &[u32], cached: usize) -> VecDeque<usize> {
        let last = ids.len().saturating_sub(1);
        let branch = self.seqs.longest_prefix(owner, ids);
        // A few ids are computed as fast as they are kept.
        let marks = [branch, last].into_iter().filter(|mark| *mark >= cached + KV_BLOCK / 2 && *mark <= last);
        let mut marks: VecDeque<usize> = marks.collect();
        if marks.len() > 1 && marks[0] == marks[1] {
            marks.pop_back();
        }
        marks
    }

    /// The first of several answers has computed the prompt: the others begin with it.
    pub(super) fn open_gate(&mut self, id: u64) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let Some(gate) = running.gate.take() else { return };
        let of = |slot: &usize| self.slots[*slot].as_ref().is_some_and(|work| work.request == id);
        let slots: Vec<usize> = self.order.iter().copied().filter(of).collect();
        let first = slots.iter().find_map(|slot| self.slots[*slot].as_ref().filter(|work| !work.parked).map(|w| w.seq));
        for slot in slots {
            let Some(work) = self.slots[slot].as_mut().filter(|work| work.parked) else { continue };
            work.parked = false;
            let forked = first.is_some_and(|from| gate > 0 && self.runner.fork(from, work.seq, gate as u32).is_ok());
            work.fed = if forked { gate } else { 0 };
        }
    }

    /// The youngest request goes back to the queue, to be computed anew. False if there is no other than the oldest.
    pub(super) fn preempt(&mut self) -> bool {
        let youngest = self.running.iter().max_by_key(|(_, r)| (std::cmp::Reverse(r.job.ticket.priority), r.age));
        let Some((&id, _)) = youngest.filter(|_| self.running.len() > 1) else { return false };
        let works = self.vacate(id);
        let Some(mut running) = self.running.remove(&id) else { return false };
        running.job.parts = works.into_iter().map(|work| JobAnswer { ids: work.ids, answer: work.answer }).collect();
        running.job.backlog = running.outbox;
        self.shared.view().metrics.preemptions += 1;
        self.queue.push_back_to_front(Box::new(running.job));
        true
    }

    /// A request is alone and its answers do not fit: they end.
    pub(super) fn end_for_lack_of_room(&mut self) {
        let Some(id) = self.running.keys().next().copied() else { return };
        let tokens: usize = self.slots.iter().flatten().map(|work| work.ids.len()).sum();
        let mut why = too_long(tokens, self.loaded.n_ctx());
        (why.kind, why.message) = (pumex_serve::engine::RefusalKind::Failed, "context size has been exceeded".into());
        self.fail(id, why);
    }
}
