//! An engine that says what it is told to: no model, no device, and a record of what it was asked.

use pumex_serve::engine::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::broadcast;

/// What a request's thread does next.
pub enum FakeStep {
    Send(Event),
    Wait(Duration),
}

type Script = dyn Fn(&Generate) -> Result<Vec<FakeStep>, Refusal> + Send + Sync;

/// The engine, with one model.
pub struct FakeEngine {
    pub health: Mutex<Health>,
    pub offers: Mutex<Vec<Offer>>,
    pub model: Arc<FakeModel>,
    pub drained: AtomicBool,
    pub unloaded: Mutex<Vec<String>>,
    pub router: Mutex<Option<Router>>,
    pub library: Mutex<Option<Arc<dyn Library>>>,
    pub changes: broadcast::Sender<ModelChange>,
    /// Whether models that are loaded were looked for anew too, each time.
    pub rescans: Mutex<Vec<bool>>,
}

pub struct FakeModel {
    properties: ModelProperties,
    script: Box<Script>,
    pub seen: Mutex<Vec<Generate>>,
    pub embedded: Mutex<Vec<Embed>>,
    pub scales: Mutex<Vec<(usize, f32)>>,
    /// Requests whose receiver went away before they were over.
    pub cancelled: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
}

impl FakeEngine {
    /// One that answers as the script says.
    pub fn with(
        script: impl Fn(&Generate) -> Result<Vec<FakeStep>, Refusal> + Send + Sync + 'static,
    ) -> Arc<FakeEngine> {
        FakeEngine::of(properties(), script)
    }

    /// An engine that answers as the script says, with a model that is told to be so.
    pub fn of(
        properties: ModelProperties,
        script: impl Fn(&Generate) -> Result<Vec<FakeStep>, Refusal> + Send + Sync + 'static,
    ) -> Arc<FakeEngine> {
        let offer = Offer {
            name: properties.name.clone(),
            aliases: vec!["small".into()],
            tags: vec!["test".into()],
            state: ModelState::Loaded,
            failure: None,
            path: Some(properties.path.clone()),
            created: 1_700_000_000,
            file_bytes: 4096,
            properties: Some(Arc::new(properties.clone())),
        };
        let model = FakeModel {
            properties,
            script: Box::new(script),
            seen: Mutex::default(),
            embedded: Mutex::default(),
            scales: Mutex::new(vec![(0, 1.0)]),
            cancelled: Arc::default(),
            stopped: Arc::default(),
        };
        Arc::new(FakeEngine {
            health: Mutex::new(Health::Ok),
            offers: Mutex::new(vec![offer]),
            model: Arc::new(model),
            drained: AtomicBool::new(false),
            unloaded: Mutex::default(),
            router: Mutex::default(),
            library: Mutex::default(),
            changes: broadcast::Sender::new(16),
            rescans: Mutex::default(),
        })
    }

    /// One that says hello, in two pieces, to everything; with reasoning and a call where there are functions.
    pub fn hello() -> Arc<FakeEngine> {
        FakeEngine::with(|request| Ok(hello(request).into_iter().map(FakeStep::Send).collect()))
    }

    /// One that says hello, and takes pictures and sounds, or one of them.
    pub fn takes(vision: bool, audio: bool) -> Arc<FakeEngine> {
        let properties = ModelProperties { vision, audio, embeds: None, ..properties() };
        FakeEngine::of(properties, |request| Ok(hello(request).into_iter().map(FakeStep::Send).collect()))
    }

    /// What it was asked last.
    pub fn last(&self) -> Generate {
        self.model.seen.lock().unwrap().last().unwrap().clone()
    }
}

pub fn properties() -> ModelProperties {
    ModelProperties {
        name: "fake-1b".into(),
        path: "models/fake-1b.gguf".into(),
        architecture: "llama".into(),
        file_type: "Q4_K_M".into(),
        n_params: 1_000_000_000,
        n_bytes: 600_000_000,
        n_vocab: 256,
        vocab_type: "BPE".into(),
        n_embd: 4,
        n_ctx_train: 8192,
        n_ctx: 4096,
        n_slots: 2,
        chat_template: Some("{{ messages }}".into()),
        chat_template_error: None,
        tools: true,
        reasoning: true,
        vision: false,
        audio: false,
        bos_token: "<s>".into(),
        eos_token: "</s>".into(),
        embeds: Some(Pooling::Mean),
        infills: true,
        default_settings: json!({"seed": 4294967295u32, "temperature": 0.8}),
        device: "none".into(),
        metadata: json!({"general.architecture": "llama"}),
    }
}

/// Tokens of a text: its bytes.
pub fn tokens(text: &str, request: &Generate) -> Vec<GeneratedToken> {
    let told = |id: u8, logprob: f32| TokenLogprob { id: id.into(), bytes: vec![id], logprob };
    let piece = |byte: u8| GeneratedToken {
        id: byte.into(),
        bytes: vec![byte],
        logprob: request.logprobs.map(|_| -0.5),
        top: (0..request.logprobs.unwrap_or(0).min(2)).map(|i| told(byte + i as u8, -0.5 - i as f32)).collect(),
    };
    text.bytes().map(piece).collect()
}

pub fn started_event(request: &Generate) -> Event {
    let settings = json!({"n_predict": request.max_tokens.map_or(-1, |n| n as i64), "seed": request.sampling.seed, "temperature": 0.8});
    Event::Started {
        slots: (0..request.n).collect(),
        prompt_tokens: 7,
        cached_tokens: 2,
        settings,
        prompt: "<s>prompt".into(),
        at: std::time::Instant::now(),
    }
}

pub fn piece(answer: usize, phase: Phase, text: &str, request: &Generate) -> Event {
    Event::Piece { answer, phase, text: text.into(), tokens: tokens(text, request) }
}

pub fn finished_event(answer: usize, reason: FinishReason) -> Event {
    let timings = Timings {
        queue_ms: 1.0,
        prompt_tokens: 5,
        prompt_ms: 10.0,
        cached_tokens: 2,
        predicted_tokens: 5,
        predicted_ms: 8.0,
        draft_tokens: 0,
        draft_accepted: 0,
    };
    let finish = Finish {
        reason,
        prompt_tokens: 7,
        cached_tokens: 2,
        completion_tokens: 5,
        reasoning_tokens: 1,
        has_new_line: false,
        truncated: false,
        held: 12,
        timings,
    };
    Event::Finished { answer, finish }
}

/// What is told of a prompt of two tokens.
fn prompt_told() -> Vec<GeneratedToken> {
    let piece = |id: u32, text: &str, logprob: Option<f32>| {
        let top = logprob.map(|logprob| TokenLogprob { id, bytes: text.into(), logprob });
        GeneratedToken { id, bytes: text.into(), logprob, top: top.into_iter().collect() }
    };
    vec![piece(1, "a", None), piece(2, " b", Some(-0.5))]
}

fn hello(request: &Generate) -> Vec<Event> {
    let mut events = vec![started_event(request)];
    if request.progress {
        events.push(Event::Progress { total: 7, cached: 2, processed: 2, ms: 0.0 });
        events.push(Event::Progress { total: 7, cached: 2, processed: 7, ms: 10.0 });
    }
    if request.prompt_logprobs.is_some() {
        events.push(Event::Prompt { tokens: prompt_told() });
    }
    let tools =
        matches!(&request.prompt, Prompt::Chat(chat) if !chat.tools.is_empty() && chat.tool_choice != ToolChoice::None);
    for answer in 0..request.n {
        if tools {
            events.push(piece(answer, Phase::Reasoning, "Hm", request));
            events.push(piece(answer, Phase::Reasoning, ".", request));
            for call in 0..2 {
                let id = format!("call{call}");
                events.push(Event::CallStart { answer, call, name: "weather".into(), id });
                events.push(Event::CallArguments { answer, call, delta: "{\"city\":".into() });
                events.push(Event::CallArguments { answer, call, delta: "\"Rome\"}".into() });
            }
            events.push(finished_event(answer, FinishReason::ToolCalls));
        } else {
            events.push(piece(answer, Phase::Content, "Hel", request));
            events.push(piece(answer, Phase::Content, "lo", request));
            let reason = match request.stop.first() {
                Some(stop) => FinishReason::Stop(stop.clone()),
                None if request.max_tokens == Some(5) => FinishReason::Length,
                None => FinishReason::End,
            };
            events.push(finished_event(answer, reason));
        }
    }
    events
}

pub fn refusal(kind: RefusalKind, message: &str) -> Refusal {
    Refusal { kind, message: message.into(), field: None, tokens: None }
}

impl Engine for FakeEngine {
    fn health(&self) -> Health {
        self.health.lock().unwrap().clone()
    }

    fn offers(&self) -> Vec<Offer> {
        self.offers.lock().unwrap().clone()
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<dyn Model>, Refusal> {
        self.find_loaded(name).ok_or_else(|| refusal(RefusalKind::NotFound, "there is no such model"))
    }

    fn awake(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        self.find_loaded(name)
    }

    fn find_loaded(&self, name: Option<&str>) -> Option<Arc<dyn Model>> {
        name.is_none_or(|n| n == "fake-1b" || n == "small").then(|| self.model.clone() as Arc<dyn Model>)
    }

    fn unload(&self, name: &str) -> Result<bool, Refusal> {
        let mut unloaded = self.unloaded.lock().unwrap();
        let is_loaded = !unloaded.iter().any(|known| known == name);
        unloaded.push(name.into());
        Ok(is_loaded)
    }

    fn past(&self, _name: Option<&str>) -> Metrics {
        Metrics { prompt_tokens: 77, ..Metrics::default() }
    }

    fn router(&self) -> Option<Router> {
        *self.router.lock().unwrap()
    }

    fn changes(&self) -> broadcast::Receiver<ModelChange> {
        self.changes.subscribe()
    }

    fn library(&self) -> Option<Arc<dyn Library>> {
        self.library.lock().unwrap().clone()
    }

    fn rescan(&self, running: bool) {
        self.rescans.lock().unwrap().push(running);
    }

    fn drain(&self) {
        self.drained.store(true, Ordering::SeqCst);
    }

    fn stop(&self) {
        self.model.stopped.store(true, Ordering::SeqCst);
    }
}

impl Model for FakeModel {
    fn properties(&self) -> &ModelProperties {
        &self.properties
    }

    fn generate(&self, request: Generate, events: EventSender) -> Result<Vec<String>, Refusal> {
        self.seen.lock().unwrap().push(request.clone());
        let steps = (self.script)(&request)?;
        let (cancelled, stopped) = (self.cancelled.clone(), self.stopped.clone());
        std::thread::spawn(move || {
            for step in steps {
                let end =
                    std::time::Instant::now() + if let FakeStep::Wait(time) = step { time } else { Duration::ZERO };
                if let FakeStep::Send(event) = step {
                    if events.blocking_send(event).is_err() {
                        cancelled.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
                while std::time::Instant::now() < end {
                    if events.is_closed() {
                        cancelled.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    if stopped.load(Ordering::SeqCst) {
                        let _ =
                            events.blocking_send(Event::Failed(refusal(RefusalKind::Unavailable, "the server stops")));
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Ok(Vec::new())
    }

    fn render(&self, chat: &Chat) -> Result<(String, usize), Refusal> {
        let text: String = chat.messages.iter().map(|m| format!("<{}>{}", m["role"], m["content"])).collect();
        Ok((text.clone(), text.len()))
    }

    fn tokenize(&self, text: &str, add_special: bool, _parse_special: bool) -> Result<Vec<u32>, Refusal> {
        let start = add_special.then_some(1);
        Ok(start.into_iter().chain(text.bytes().map(u32::from)).collect())
    }

    fn pieces(&self, ids: &[u32]) -> Result<Vec<Vec<u8>>, Refusal> {
        let byte = |id: &u32| u8::try_from(*id).map(|b| vec![b]);
        ids.iter().map(byte).collect::<Result<_, _>>().map_err(|_| refusal(RefusalKind::Invalid, "no such id"))
    }

    fn detokenize(&self, ids: &[u32]) -> Result<String, Refusal> {
        Ok(String::from_utf8_lossy(&self.pieces(ids)?.concat()).into_owned())
    }

    fn embed(&self, request: &Embed, reply: VectorSender) -> Result<(), Refusal> {
        self.embedded.lock().unwrap().push(request.clone());
        let rows = if request.pooling == Some(Pooling::None) { 2 } else { 1 };
        let one = |_| EmbeddingResult { vectors: vec![vec![0.5, -0.5, 0.5, 0.5]; rows], tokens: 3 };
        let _ = reply.send(Ok(request.inputs.iter().map(one).collect()));
        Ok(())
    }

    fn rerank(&self, request: &Rerank, reply: ScoreSender) -> Result<(), Refusal> {
        let _ = reply.send(Ok((request.documents.iter().map(|d| d.len() as f32).collect(), 9)));
        Ok(())
    }

    fn slots(&self, _whose: &Holder) -> Vec<SlotStatus> {
        let slot = |id, busy: bool| SlotStatus {
            id,
            n_ctx: 4096,
            busy,
            request: busy.then_some(3),
            key: String::new(),
            settings: busy.then(|| json!({"seed": 1})),
            held: 12,
            prompt_tokens: 7,
            prompt_done: 7,
            generated: if busy { 5 } else { 0 },
            remaining: busy.then_some(11),
            timings: Timings::default(),
        };
        vec![slot(0, false), slot(1, true)]
    }

    fn save_slot(&self, slot: usize, name: &str, _whose: &Holder) -> Result<(usize, u64), Refusal> {
        match name.contains('/') {
            true => Err(refusal(RefusalKind::Invalid, "a name, not a path")),
            false => Ok((12 + slot, 1000)),
        }
    }

    fn restore_slot(&self, slot: usize, _name: &str, _whose: &Holder) -> Result<(usize, u64), Refusal> {
        Ok((12 + slot, 1000))
    }

    fn erase_slot(&self, _slot: usize, _whose: &Holder) -> Result<usize, Refusal> {
        Ok(12)
    }

    fn adapters(&self, _whose: &Holder) -> Vec<Adapter> {
        let scales = self.scales.lock().unwrap();
        scales.iter().map(|(id, scale)| Adapter { id: *id, path: "a.gguf".into(), scale: *scale }).collect()
    }

    fn set_adapters(&self, scales: &[(usize, f32)], _whose: &Holder) -> Result<(), Refusal> {
        *self.scales.lock().unwrap() = scales.to_vec();
        Ok(())
    }

    fn metrics(&self) -> Metrics {
        let used = Metrics { prompt_tokens: 5, prompt_tokens_cached: 2, prompt_seconds: 0.5, ..Metrics::default() };
        Metrics {
            predicted_tokens: 10,
            predicted_seconds: 2.0,
            steps: 4,
            busy_slot_steps: 6,
            blocks_used: 1,
            blocks_total: 4,
            ..used
        }
    }
}
