//! GET with redirects, ranges and a token that one host alone sees.
//!
//! Requests run on threads of their own, so that whoever waits can be stopped at any time.

use crate::name::is_hex;
use crate::{Error, HubSettings, Result};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use ureq::http::{HeaderMap, Uri};

/// Hosts that a request may be sent on to.
const MOST_REDIRECTS: usize = 10;

/// Most bytes of an answer that is a text.
const MOST_TEXT: usize = 64 << 20;

/// Bytes of a piece of a body.
const PIECE: usize = 256 << 10;

/// How often who waits looks whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// What to ask for.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub url: String,
    /// The first byte; 0 for all.
    pub from: u64,
    /// Only if this is still its tag.
    pub if_range: Option<String>,
    /// The form that is wanted; none for any.
    pub accept: Option<&'static str>,
}

/// The head of an answer.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    pub status: u16,
    /// Bytes of the body.
    pub length: Option<u64>,
    /// First byte of the body in the whole, and bytes of the whole.
    pub range: Option<(u64, u64)>,
    /// A strong tag of the contents.
    pub etag: Option<String>,
    /// What the Hub says of the file behind a redirect.
    pub sha256: Option<String>,
    /// The size, bytes, that the Hub says of the file behind a redirect.
    pub size: Option<u64>,
}

enum Message {
    Head(ResponseHead),
    Piece(Vec<u8>),
    End,
    Failed(Error),
}

/// The body of an answer.
pub struct ResponseBody<'a> {
    from: Receiver<Message>,
    stop: &'a AtomicBool,
    url: String,
}

/// Scheme, host and port of a URL of HTTP.
pub fn origin(url: &str) -> Option<(String, String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let usual = match scheme.as_str() {
        "https" => 443,
        "http" => 80,
        _ => return None,
    };
    let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
    Some((scheme, host, uri.port_u16().unwrap_or(usual)))
}

/// Where a redirect leads: a URL, or a path on the same host.
fn target(url: &str, location: &str) -> Option<String> {
    let found = if location.starts_with('/') && !location.starts_with("//") {
        let uri: Uri = url.parse().ok()?;
        format!("{}://{}{location}", uri.scheme_str()?, uri.authority()?)
    } else {
        location.to_string()
    };
    let (from, to) = (origin(url)?, origin(&found)?);
    // What was asked for in secret is not to be told in the open.
    (from.0 == to.0 || to.0 == "https").then_some(found)
}

impl ResponseBody<'_> {
    fn next(&self) -> Result<Message> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            match self.from.recv_timeout(LOOK) {
                Ok(Message::Failed(error)) => return Err(error),
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(network(&self.url, "the connection ended")),
            }
        }
    }

    /// The next piece; none at the end.
    pub fn piece(&self) -> Result<Option<Vec<u8>>> {
        match self.next()? {
            Message::Piece(piece) => Ok(Some(piece)),
            _ => Ok(None),
        }
    }
}

/// Asks, and waits for the answer's head, which is that of a success.
///
/// # Errors
/// A host that cannot be reached, refuses, or sends on to nowhere; the flag.
pub fn get<'a>(settings: &HubSettings, ask: &Ask, stop: &'a AtomicBool) -> Result<(ResponseHead, ResponseBody<'a>)> {
    let (to, from) = sync_channel(4);
    let (settings, url, ask) = (settings.clone(), ask.url.clone(), ask.clone());
    std::thread::spawn(move || {
        if let Err(error) = answer(&settings, &ask, &to) {
            // Nobody listens where the reader was stopped.
            let _ = to.send(Message::Failed(error));
        }
    });
    let body = ResponseBody { from, stop, url };
    match body.next()? {
        Message::Head(head) => Ok((head, body)),
        _ => Err(network(&body.url, "the connection ended")),
    }
}

/// All of a text.
///
/// # Errors
/// As [`get`]; one that is too long.
pub fn text(settings: &HubSettings, ask: Ask, stop: &AtomicBool) -> Result<Vec<u8>> {
    let url = ask.url.clone();
    let (_, body) = get(settings, &ask, stop)?;
    let mut all = Vec::new();
    while let Some(piece) = body.piece()? {
        if all.len() + piece.len() > MOST_TEXT {
            return Err(Error::Answer { url, what: format!("expected at most {MOST_TEXT} bytes, found more") });
        }
        all.extend(piece);
    }
    Ok(all)
}

fn network(url: &str, what: &str) -> Error {
    Error::Network { url: url.to_string(), what: what.to_string() }
}

/// Without the query, in which other hosts have signatures.
fn strip_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

fn transport_error(url: &str, patience: Duration, error: &ureq::Error) -> Error {
    let what = match error {
        ureq::Error::HostNotFound => "no such host; is there a network?".to_string(),
        ureq::Error::ConnectionFailed => "no connection; is there a network?".to_string(),
        ureq::Error::Timeout(_) => format!("no answer for {} s", patience.as_secs_f64()),
        ureq::Error::Io(e) if e.kind() == std::io::ErrorKind::TimedOut => {
            format!("no answer for {} s", patience.as_secs_f64())
        }
        ureq::Error::Io(e) => format!("no connection ({e}); is there a network?"),
        other => other.to_string(),
    };
    network(strip_query(url), &what)
}

fn answer(settings: &HubSettings, ask: &Ask, to: &SyncSender<Message>) -> Result<()> {
    let patience = Some(settings.patience);
    let config = ureq::Agent::config_builder()
        .max_redirects(0)
        .http_status_as_error(false)
        .timeout_connect(patience)
        .timeout_recv_response(patience)
        .timeout_per_read(patience)
        .accept_encoding("identity")
        .user_agent(concat!("pumex/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent = config.new_agent();
    let mut url = ask.url.clone();
    let mut linked = ResponseHead::default();
    for hop in 0..=MOST_REDIRECTS {
        let mut request = agent.get(&url);
        let trusted = origin(&url).is_some() && origin(&url) == origin(&settings.endpoint);
        if let Some(token) = settings.token.as_ref().filter(|_| trusted) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(form) = ask.accept {
            request = request.header("Accept", form);
        }
        if ask.from > 0 {
            request = request.header("Range", format!("bytes={}-", ask.from));
            if let Some(tag) = &ask.if_range {
                request = request.header("If-Range", tag);
            }
        }
        let mut response = request.call().map_err(|e| transport_error(&url, settings.patience, &e))?;
        let status = response.status().as_u16();
        let headers = response.headers();
        if hop == 0 {
            linked = read_link_head(headers);
        }
        if matches!(status, 301 | 302 | 303 | 307 | 308) {
            let location = headers.get("location").and_then(|v| v.to_str().ok());
            let found = location.and_then(|location| target(&url, location));
            let Some(found) = found else {
                let what =
                    format!("expected a redirect to a URL as safe, found {:?}", strip_query(location.unwrap_or("")));
                return Err(Error::Answer { url: strip_query(&url).into(), what });
            };
            url = found;
            continue;
        }
        if !(200..300).contains(&status) && status != 416 {
            return Err(status_error(&ask.url, status, settings, headers));
        }
        let mut head = ResponseHead { status, ..linked };
        read_head(headers, &mut head);
        if to.send(Message::Head(head)).is_err() {
            return Ok(());
        }
        let mut reader = response.body_mut().with_config().limit(u64::MAX).reader();
        return send_body(&mut reader, to).map_err(|e| match e.kind() {
            std::io::ErrorKind::TimedOut => {
                network(strip_query(&url), &format!("no data for {} s", settings.patience.as_secs_f64()))
            }
            _ => network(strip_query(&url), &format!("the connection ended: {e}")),
        });
    }
    let what = format!("expected at most {MOST_REDIRECTS} redirects, found more");
    Err(Error::Answer { url: strip_query(&ask.url).into(), what })
}

fn send_body(reader: &mut dyn Read, to: &SyncSender<Message>) -> std::io::Result<()> {
    let mut piece = Vec::with_capacity(PIECE);
    let mut part = vec![0; 64 << 10];
    loop {
        let read = reader.read(&mut part);
        // What came before a failure came.
        let done = !matches!(read, Ok(1..));
        piece.extend_from_slice(&part[..*read.as_ref().unwrap_or(&0)]);
        if (piece.len() >= PIECE || done)
            && !piece.is_empty()
            && to.send(Message::Piece(std::mem::take(&mut piece))).is_err()
        {
            return Ok(());
        }
        if done {
            read?;
            let _ = to.send(Message::End);
            return Ok(());
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn read_link_head(headers: &HeaderMap) -> ResponseHead {
    let tag = header(headers, "x-linked-etag").map(|tag| tag.trim_start_matches("W/").trim_matches('"'));
    let sha256 = tag.filter(|tag| is_hex(tag, 64)).map(str::to_ascii_lowercase);
    let size = header(headers, "x-linked-size").and_then(|size| size.parse().ok());
    ResponseHead { sha256, size, ..ResponseHead::default() }
}

fn read_head(headers: &HeaderMap, head: &mut ResponseHead) {
    head.length = header(headers, "content-length").and_then(|len| len.parse().ok());
    let tag = header(headers, "etag").filter(|tag| tag.starts_with('"') && tag.len() <= 256);
    head.etag = tag.map(str::to_string);
    head.range = header(headers, "content-range").and_then(|range| {
        let (bytes, total) = range.strip_prefix("bytes ")?.split_once('/')?;
        let first = if bytes == "*" { 0 } else { bytes.split_once('-')?.0.parse().ok()? };
        Some((first, total.parse().ok()?))
    });
}

/// What a refusal means, in words.
fn status_error(url: &str, status: u16, settings: &HubSettings, headers: &HeaderMap) -> Error {
    let hub = origin(url) == origin(&settings.endpoint);
    let token = settings.token.is_some();
    let said = header(headers, "x-error-message")
        .map(|text| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>());
    let said = said.filter(|text| !text.is_empty()).map(|text| format!(": {text}")).unwrap_or_default();
    let what = match (status, token) {
        (401 | 403, _) if !hub => format!("{status}, not allowed, or there is no such model"),
        (401, false) => "401, it needs a token: set HF_TOKEN or give -hft, or there is no such repository".to_string(),
        (401, true) => "401, the token (HF_TOKEN, -hft) is not accepted".to_string(),
        (403, _) => "403, not allowed: accept the model's terms on its page, with the account of the token".to_string(),
        (404, _) => "404, no such repository or file".to_string(),
        (429, _) => "429, too many requests: try again later".to_string(),
        (500.., _) => format!("{status}, the host has trouble of its own: try again later"),
        _ => format!("{status}, expected 200"),
    };
    Error::Refused { url: strip_query(url).to_string(), status, what: what + &said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_leads_to_a_url_as_safe() {
        let to = |location| target("https://hub.co/a/b?x", location);
        assert_eq!(to("/c/d").as_deref(), Some("https://hub.co/c/d"));
        assert_eq!(to("https://cdn.co:8/x").as_deref(), Some("https://cdn.co:8/x"));
        for bad in ["http://hub.co/a", "file:///etc/passwd", "//cdn.co/x", "c", "", "ftp://a/b"] {
            assert_eq!(to(bad), None, "{bad}");
        }
        assert!(target("http://127.0.0.1:80/a", "http://127.0.0.1/b").is_some());
    }

    #[test]
    fn an_origin_has_its_usual_port() {
        assert_eq!(origin("HTTPS://Hub.co/x"), origin("https://hub.co:443"));
        assert_ne!(origin("https://hub.co"), origin("http://hub.co"));
        assert_ne!(origin("https://hub.co"), origin("https://hub.co.evil.org"));
        assert_ne!(origin("https://hub.co"), origin("https://hub.co@evil.org"));
    }
}
