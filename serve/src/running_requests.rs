//! Requests at work: their events as they come, in one sequence.

use crate::answers::Answers;
use crate::engine::{Event, Generate, Model, RefusalKind};
use crate::errors::{refusal, RequestFault, Result};
use crate::http::{warn, App};
use crate::latency::{Clock, Latencies};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};

/// Events that wait for a slow client, before the request itself waits.
const EVENTS: usize = 256;
/// How long an answer's status waits for the first event. An error within it has a status of its own; later ones come in the stream.
const FIRST: Duration = Duration::from_secs(5);

/// Requests at work. Dropping it cancels them.
pub(crate) struct Flow {
    latencies: Arc<Latencies>,
    runs: Vec<RunningRequest>,
    /// The run whose turn it is, so that none starves.
    turn: usize,
    first: Option<(usize, Event)>,
}

struct RunningRequest {
    events: Receiver<Event>,
    clock: Clock,
    answers: usize,
    /// Answers that are not over.
    left: usize,
}

impl Flow {
    /// Queues requests, all or none.
    ///
    /// # Errors
    /// The engine's refusal.
    pub async fn start(app: &Arc<App>, model: Arc<dyn Model>, requests: Vec<Generate>) -> Result<Flow> {
        let mut runs = Vec::new();
        let mut senders = Vec::new();
        for request in &requests {
            let (sender, events) = mpsc::channel(EVENTS);
            runs.push(RunningRequest { events, clock: Clock::new(request.n), answers: request.n, left: request.n });
            senders.push(sender);
        }
        let slow = requests.iter().any(Generate::is_slow_to_read);
        let work = move || {
            let each = requests.into_iter().zip(senders).map(|(r, s)| model.generate(r, s));
            each.collect::<std::result::Result<Vec<_>, _>>()
        };
        let warnings = match slow {
            true => app.work_slowly(work).await?,
            false => app.work(work).await?,
        };
        // Requests of one body differ in their prompts alone.
        warnings.into_iter().next().unwrap_or_default().into_iter().for_each(warn);
        let mut flow = Flow { latencies: app.latencies.clone(), runs, turn: 0, first: None };
        if let Ok(first) = tokio::time::timeout(FIRST, flow.next()).await {
            match first {
                Some((_, Event::Failed(refusal))) => return Err(refusal.into()),
                first => flow.first = first,
            }
        }
        Ok(flow)
    }

    /// The next event and the number of its request; none when all are over. After [`Event::Failed`] nothing comes.
    pub async fn next(&mut self) -> Option<(usize, Event)> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event and the number of its request, for those who poll; none when all are over.
    pub fn poll(&mut self, cx: &mut Context) -> Poll<Option<(usize, Event)>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let count = self.runs.len();
        for i in (0..count).map(|i| (self.turn + i) % count) {
            let run = &mut self.runs[i];
            if run.left == 0 {
                continue;
            }
            let event = match run.events.poll_recv(cx) {
                Poll::Pending => continue,
                Poll::Ready(Some(event)) => event,
                Poll::Ready(None) => Event::Failed(refusal(RefusalKind::Failed, "the engine gave up this request")),
            };
            self.turn = i + 1;
            self.note(i, &event);
            return Poll::Ready(Some((i, event)));
        }
        match self.runs.iter().all(|r| r.left == 0) {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    /// Counts and measures an event.
    fn note(&mut self, run: usize, event: &Event) {
        let RunningRequest { clock, left, .. } = &mut self.runs[run];
        match event {
            Event::Started { .. } => clock.left_queue(&self.latencies),
            Event::Piece { answer, tokens, .. } => clock.tokens(&self.latencies, *answer, tokens.len()),
            Event::Finished { .. } => {
                *left = left.saturating_sub(1);
                clock.record_latency(&self.latencies);
            }
            Event::Failed(_) => self.runs.clear(),
            _ => {}
        }
    }

    /// All answers of each request, when they are over.
    ///
    /// # Errors
    /// One that failed.
    pub async fn collect(mut self) -> Result<Vec<Answers>> {
        let mut all: Vec<Answers> = self.runs.iter().map(|r| Answers::new(r.answers)).collect();
        while let Some((run, event)) = self.next().await {
            match event {
                Event::Failed(refusal) => return Err(RequestFault::from(refusal)),
                event => all[run].take(event),
            }
        }
        Ok(all)
    }
}
