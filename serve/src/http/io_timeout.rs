//! A connection that is cut when it takes too long: hyper has a time for whole headers on an idle connection, but none that begins
//! with their first byte, and none for a client that takes nothing.

use super::ConnectionLimits;
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Whether a request is worked on, from the end of its headers to the end of its answer.
pub(super) type Busy = Arc<AtomicBool>;

/// A time that may be running.
struct Alarm {
    time: Duration,
    since: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    fn new(time: Duration) -> Alarm {
        Alarm { time, since: None, sleep: Box::pin(tokio::time::sleep(time)) }
    }

    fn start(&mut self) {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            self.sleep.as_mut().reset(now + self.time);
        }
    }

    fn clear(&mut self) {
        self.since = None;
    }

    /// An error once the time is up; wakes the task then.
    fn check(&mut self, cx: &mut Context, what: &'static str) -> Result<()> {
        match self.since.is_some() && self.sleep.as_mut().poll(cx).is_ready() {
            true => Err(Error::new(ErrorKind::TimedOut, what)),
            false => Ok(()),
        }
    }
}

/// A connection with times.
pub(super) struct TimeoutIo<Io> {
    io: Io,
    busy: Busy,
    headers: Alarm,
    writes: Alarm,
}

impl<Io> TimeoutIo<Io> {
    pub fn new(io: Io, limits: &ConnectionLimits, busy: Busy) -> TimeoutIo<Io> {
        TimeoutIo { io, busy, headers: Alarm::new(limits.header_time), writes: Alarm::new(limits.write_time) }
    }

    /// What a write gives, unless none got anything off for too long.
    fn wrote<T>(&mut self, cx: &mut Context, poll: Poll<Result<T>>) -> Poll<Result<T>> {
        match poll {
            Poll::Pending => {
                self.writes.start();
                self.writes.check(cx, "the client takes nothing")?;
                Poll::Pending
            }
            ready => {
                self.writes.clear();
                ready
            }
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for TimeoutIo<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context, buf: &mut ReadBuf) -> Poll<Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.io).poll_read(cx, buf);
        if self.busy.load(Ordering::Relaxed) {
            self.headers.clear();
            return poll;
        }
        if poll.is_ready() && buf.filled().len() > before {
            self.headers.start();
        }
        self.headers.check(cx, "the headers did not come in time")?;
        ready!(poll)?;
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for TimeoutIo<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context, bytes: &[u8]) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(cx, poll)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context, parts: &[IoSlice]) -> Poll<Result<usize>> {
        let poll = Pin::new(&mut self.io).poll_write_vectored(cx, parts);
        self.wrote(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.io).poll_flush(cx);
        self.wrote(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Result<()>> {
        let poll = Pin::new(&mut self.io).poll_shutdown(cx);
        self.wrote(cx, poll)
    }
}
