//! Answers sent while they are made.

use crate::engine::Event;
use crate::errors::RequestFault;
use crate::frames::{Format, Frames};
use crate::http::App;
use crate::running_requests::Flow;
use axum::body::Body;
use axum::http::{header, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Bytes that are sent together, if there are as many.
const TOGETHER: usize = 16 << 10;

/// How an API writes events.
pub(crate) trait Script: Send + 'static {
    /// Writes what an event of that request says; never [`Event::Failed`].
    fn event(&mut self, run: usize, event: Event, out: &mut Frames);

    /// Writes what stands at the end of all.
    fn end(&mut self, out: &mut Frames);

    /// Writes what stands at the end of a stream that breaks off.
    fn write_failure(&mut self, fault: &RequestFault, out: &mut Frames);

    /// Writes something that means nothing, so that the connection is not taken for dead.
    fn ping(&mut self, out: &mut Frames) {
        out.comment();
    }
}

/// The answer that a script makes of what flows.
pub(crate) fn response(app: &App, flow: Flow, script: impl Script, format: Format) -> Response {
    let pause = app.settings.limits.ping;
    let sleep = Box::pin(tokio::time::sleep(pause));
    let body =
        Body::new(Stream { flow: Some(flow), script: Box::new(script), frames: Frames::new(format), pause, sleep });
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, format.media());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx and its like would hold pieces back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Stream {
    /// None when it is over.
    flow: Option<Flow>,
    script: Box<dyn Script>,
    frames: Frames,
    pause: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Stream { flow, script, frames, pause, sleep } = &mut *self;
        while frames.len() < TOGETHER {
            let Some(events) = flow else { break };
            match events.poll(cx) {
                Poll::Pending => break,
                Poll::Ready(Some((_, Event::Failed(refusal)))) => {
                    script.write_failure(&refusal.into(), frames);
                    *flow = None;
                }
                Poll::Ready(Some((run, event))) => script.event(run, event, frames),
                Poll::Ready(None) => {
                    script.end(frames);
                    *flow = None;
                }
            }
        }
        if frames.len() == 0 && flow.is_some() && sleep.as_mut().poll(cx).is_ready() {
            script.ping(frames);
            sleep.as_mut().reset(Instant::now() + *pause);
            // Polled again, so that the next pause wakes this task too.
            let _ = sleep.as_mut().poll(cx);
        }
        match frames.take() {
            Some(bytes) => {
                sleep.as_mut().reset(Instant::now() + *pause);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            None if flow.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
