//! One call of whatever kind, or a list of them.

use crate::reply::braces::Braces;
use crate::reply::format::{CallNotation, Names};
use crate::reply::json_call::{FeedResult, JsonCall};
use crate::reply::pairs::PairsParser;
use crate::reply::params::{Params, Types};
use crate::reply::python::Python;
use crate::reply::tags::Tags;
use crate::reply::{until, Event, MarkSearch};

/// Events of calls, in order: arguments wait until the function's name is known.
pub(super) struct Emit<'a> {
    pub events: &'a mut Vec<Event>,
    pub state: &'a mut EmitState,
}

/// What [`Emit`] remembers.
#[derive(Default)]
pub(super) struct EmitState {
    /// The present call.
    pub index: usize,
    started: bool,
    waiting: String,
    id: Option<String>,
    /// Events of what may not be a call.
    pub held: Vec<Event>,
    /// Calls that ended.
    pub ended: usize,
}

impl Emit<'_> {
    pub fn start(&mut self, name: &str, id: Option<String>) {
        let id = id.or_else(|| self.state.id.take());
        self.events.push(Event::CallStart { index: self.state.index, name: name.to_string(), id });
        self.state.started = true;
        let waiting = std::mem::take(&mut self.state.waiting);
        self.arguments(&waiting);
    }

    pub fn id(&mut self, id: String) {
        match self.state.started {
            true => self.events.push(Event::CallId { index: self.state.index, id }),
            false => self.state.id = Some(id),
        }
    }

    pub fn arguments(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.state.started {
            self.state.waiting.push_str(text);
            return;
        }
        let at = self.state.index;
        match self.events.last_mut() {
            Some(Event::CallArguments { index, delta }) if *index == at => delta.push_str(text),
            _ => self.events.push(Event::CallArguments { index: at, delta: text.to_string() }),
        }
    }

    /// What was held back is a call.
    pub fn flush(&mut self) {
        self.events.append(&mut self.state.held);
    }

    pub fn end(&mut self, complete: bool) {
        if self.state.started {
            self.events.push(Event::CallEnd { index: self.state.index, complete });
            self.state.index += 1;
            self.state.ended += 1;
        }
        self.state.started = false;
        self.state.waiting.clear();
        self.state.id = None;
    }
}

/// What came of a step.
pub(super) enum CallStep {
    More,
    Done,
    /// The text is no call; it is content.
    NotOne(String),
}

enum CallBody {
    /// `raw` is the text so far, as long as it may be no call after all; `bare`: it stands in no section.
    Json {
        call: JsonCall,
        raw: String,
        bare: bool,
    },
    /// The name of a `Named` call, then its arguments as JSON.
    Named(CallNotation, NameState),
    Params(Params),
    Pairs(PairsParser),
    Braces(Braces),
    Tags(Tags),
    Python(Python),
    Code {
        close: String,
        text: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NameState {
    Open,
    Skip,
    Name,
    Id,
    Arguments {
        depth: usize,
        quoted: bool,
        escaped: bool,
        begun: bool,
    },
    Close,
    /// It was no call, but content.
    Content,
}

pub(super) struct Call {
    body: CallBody,
    emit: EmitState,
    first: bool,
    name: String,
}

impl Call {
    pub fn new(kind: &CallNotation, section_close: &str) -> Call {
        let close = section_close.to_string();
        let body = match kind {
            CallNotation::Json(names) => CallBody::Json { call: JsonCall::new(names), raw: String::new(), bare: false },
            CallNotation::Named { .. } => CallBody::Named(kind.clone(), NameState::Open),
            CallNotation::Params { .. } => CallBody::Params(Params::new(kind)),
            CallNotation::Pairs => CallBody::Pairs(PairsParser::new(close)),
            CallNotation::Braces { quote } => CallBody::Braces(Braces::new(quote)),
            CallNotation::Tags { prefix } => CallBody::Tags(Tags::new(prefix)),
            CallNotation::Python => CallBody::Python(Python::new()),
            CallNotation::Code => CallBody::Code { close, text: String::new() },
        };
        Call { body, emit: EmitState::default(), first: true, name: String::new() }
    }

    /// A JSON object that is a call only if it looks like one.
    pub fn tentative(names: Names) -> Call {
        let body = CallBody::Json { call: JsonCall::new(&names), raw: String::new(), bare: true };
        Call { body, emit: EmitState::default(), first: true, name: String::new() }
    }

    /// Whether the call stands in no section.
    pub fn bare(&self) -> bool {
        matches!(self.body, CallBody::Json { bare: true, .. })
    }

    /// Goes on with more text. `index` is the number of the first call.
    pub fn run(&mut self, pending: &mut String, index: usize, types: &Types, events: &mut Vec<Event>) -> CallStep {
        if std::mem::take(&mut self.first) {
            self.emit.index = index;
        }
        let mut emit = Emit { events, state: &mut self.emit };
        match &mut self.body {
            CallBody::Json { call, raw, bare } => json(call, raw, *bare, pending, &mut emit),
            CallBody::Named(kind, state) => loop {
                match step_named_call(kind, state, &mut self.name, pending, &mut emit) {
                    _ if *state == NameState::Content => return CallStep::NotOne(String::new()),
                    Some(true) => return CallStep::Done,
                    Some(false) => (),
                    None => return CallStep::More,
                }
            },
            CallBody::Params(params) => step(params.run(pending, types, &mut emit)),
            CallBody::Pairs(pairs) => step(pairs.run(pending, types, &mut emit)),
            CallBody::Braces(braces) => step(braces.run(pending, &mut emit)),
            CallBody::Tags(tags) => step(tags.run(pending, types, &mut emit)),
            CallBody::Python(python) => step(python.run(pending, &mut emit)),
            CallBody::Code { close, text } => {
                let found = until(pending, &[close]);
                let (MarkSearch::Mark(more, _) | MarkSearch::Text(more)) = &found;
                text.push_str(more);
                if !matches!(found, MarkSearch::Mark(..)) {
                    return CallStep::More;
                }
                *pending = format!("{close}{pending}");
                code(text, &mut emit);
                CallStep::Done
            }
        }
    }

    /// How many calls came, where one run gave several.
    pub fn count(&self) -> usize {
        self.emit.ended
    }

    /// The reply ended within the call: text that is content, if it is none.
    pub fn cut_off(
        &mut self,
        pending: &mut String,
        index: usize,
        types: &Types,
        events: &mut Vec<Event>,
    ) -> Option<String> {
        if let CallStep::NotOne(text) = self.run(pending, index, types, events) {
            return Some(text);
        }
        let mut emit = Emit { events, state: &mut self.emit };
        match &mut self.body {
            CallBody::Json { call, raw, bare } if !call.is_known(*bare) => return Some(std::mem::take(raw)),
            CallBody::Code { text, .. } => {
                text.push_str(pending);
                code(text, &mut emit);
                return None;
            }
            CallBody::Named(_, NameState::Close) => emit.end(true),
            CallBody::Python(python) => python.cut_off(&mut emit),
            _ => (),
        }
        emit.end(false);
        None
    }
}

fn step(done: bool) -> CallStep {
    if done {
        CallStep::Done
    } else {
        CallStep::More
    }
}

/// Code, or `tool.call(key="value")`.
fn code(text: &str, emit: &mut Emit) {
    let text = text.trim();
    if let Some((name, args)) = crate::reply::python::method_call(text) {
        emit.start(&name, None);
        emit.arguments(&args);
    } else {
        emit.start("python", None);
        let object = crate::json::Json::Object(vec![("code".to_string(), crate::json::Json::Str(text.to_string()))]);
        emit.arguments(&object.dump());
    }
    emit.end(true);
}

fn json(call: &mut JsonCall, raw: &mut String, bare: bool, pending: &mut String, emit: &mut Emit) -> CallStep {
    let mut used = 0;
    let mut end = None;
    for c in pending.chars() {
        used += c.len_utf8();
        // What is not known to be a call gives no events yet.
        let known = call.is_known(bare);
        let fed = match known {
            true => call.feed(c, emit),
            false => {
                raw.push(c);
                let mut held = std::mem::take(&mut emit.state.held);
                let fed = call.feed(c, &mut Emit { events: &mut held, state: emit.state });
                emit.state.held = held;
                fed
            }
        };
        if !known && call.is_known(bare) {
            raw.clear();
            emit.flush();
        }
        if fed == FeedResult::CallDone {
            call.again();
        } else if fed != FeedResult::More {
            end = Some(fed);
            break;
        }
    }
    let last = pending[..used].chars().next_back().map_or(0, char::len_utf8);
    match end {
        None => {
            pending.clear();
            CallStep::More
        }
        Some(_) if !call.is_known(bare) => {
            emit.state.held.clear();
            pending.drain(..used);
            CallStep::NotOne(std::mem::take(raw))
        }
        Some(FeedResult::Wrong) => {
            // The character that does not fit is left to whoever comes next.
            pending.drain(..used - last);
            emit.end(false);
            CallStep::Done
        }
        Some(_) => {
            pending.drain(..used);
            CallStep::Done
        }
    }
}

/// A step of a `Named` call: none, if more text is needed; true, if it is done.
fn step_named_call(
    kind: &CallNotation,
    state: &mut NameState,
    name: &mut String,
    pending: &mut String,
    emit: &mut Emit,
) -> Option<bool> {
    let CallNotation::Named { open, skip, end, id_end, close, qualified } = kind else { return Some(true) };
    match *state {
        NameState::Open => {
            pending.drain(..open.len().min(pending.len()));
            *state = if skip.is_empty() { NameState::Name } else { NameState::Skip };
        }
        NameState::Skip => match until(pending, &[skip]) {
            MarkSearch::Mark(..) => *state = NameState::Name,
            MarkSearch::Text(_) => return None,
        },
        NameState::Name | NameState::Id => {
            let found = until(pending, &[end, if *state == NameState::Name { id_end } else { "" }]);
            let (MarkSearch::Mark(text, _) | MarkSearch::Text(text)) = &found;
            name.push_str(text);
            let MarkSearch::Mark(_, mark) = found else { return None };
            let text = std::mem::take(name);
            let text = text.trim();
            match (*state, mark) {
                (NameState::Id, _) => emit.id(text.to_string()),
                // Functionary's name for who reads the answer.
                _ if end == "\n" && text == "all" => {
                    *state = NameState::Content;
                    return Some(false);
                }
                _ if *qualified => {
                    let function = text.rsplit_once(':').map_or(text, |(f, _)| f);
                    let function = function.strip_prefix("functions.").unwrap_or(function);
                    emit.start(function, Some(text.to_string()));
                }
                _ => emit.start(text, None),
            }
            let arguments = NameState::Arguments { depth: 0, quoted: false, escaped: false, begun: false };
            *state = if mark == 1 { NameState::Id } else { arguments };
        }
        NameState::Arguments { mut depth, mut quoted, mut escaped, mut begun } => {
            let mut used = 0;
            let mut done = false;
            for c in pending.chars() {
                let was = escaped;
                escaped = false;
                match c {
                    _ if !begun && c.is_whitespace() => {
                        used += c.len_utf8();
                        continue;
                    }
                    // Arguments that are no object: none.
                    c if !begun && c != '{' => {
                        done = true;
                        emit.arguments("{}");
                        break;
                    }
                    '\\' if quoted && !was => escaped = true,
                    '"' if !was => quoted = !quoted,
                    '{' | '[' if !quoted => depth += 1,
                    '}' | ']' if !quoted => depth = depth.saturating_sub(1),
                    _ => (),
                }
                begun = true;
                used += c.len_utf8();
                emit.arguments(c.encode_utf8(&mut [0; 4]));
                if depth == 0 {
                    done = true;
                    break;
                }
            }
            pending.drain(..used);
            *state = if done { NameState::Close } else { NameState::Arguments { depth, quoted, escaped, begun } };
            if !done {
                return None;
            }
        }
        NameState::Content => return Some(true),
        NameState::Close => {
            if pending.starts_with(close.as_str()) {
                pending.drain(..close.len());
            } else {
                let blank = pending.len() - pending.trim_start().len();
                pending.drain(..blank);
                let text = pending.as_str();
                let mark = close.trim_start();
                if mark.starts_with(text) && !(mark.is_empty() && close.is_empty()) {
                    return None;
                }
                if text.starts_with(mark) {
                    let end = pending.len() - text.len() + mark.len();
                    pending.drain(..end);
                }
            }
            emit.end(true);
            return Some(true);
        }
    }
    Some(false)
}
