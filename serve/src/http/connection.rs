//! Connections: accepted, bounded in number, and served one request after another.

use super::connection_slots::{ConnectionSlot, ConnectionSlots};
use super::io_timeout::{Busy, TimeoutIo};
use super::listen::{Duplex, Listener};
use super::stop::Stage;
use super::{App, Caller};
use axum::body::Body;
use axum::Router;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::IpAddr;
use std::pin::{pin, Pin};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

/// Bytes that are read before a request's headers are over; above, hyper itself answers 431. Shorter ones are our guard's to refuse.
const HEADER_BUFFER: usize = 64 << 10;

/// What a connection is told for which there is no place.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";

/// Accepts connections for ever, as many at a time as are allowed.
pub(super) async fn accept(listener: Listener, tls: Option<TlsAcceptor>, router: Router, app: Arc<App>) {
    let limits = &app.settings.limits;
    let places = ConnectionSlots::new(limits.connections, limits.connections_each);
    loop {
        let (mut io, peer) = match listener.accept().await {
            Ok(connection) => connection,
            Err(e) => {
                // Without file descriptors, accepting fails at once and would spin.
                tracing::warn!("a connection cannot be accepted: {e}");
                let wait = if places.make_room() { 1 } else { 100 };
                tokio::time::sleep(Duration::from_millis(wait)).await;
                continue;
            }
        };
        let (tls, router, app) = (tls.clone().filter(|_| peer.is_some()), router.clone(), app.clone());
        let Some(place) = places.take(peer) else {
            if tls.is_none() {
                // As far as it takes it at once.
                let _ = tokio::time::timeout(Duration::from_millis(10), io.write_all(FULL)).await;
            }
            continue;
        };
        tokio::spawn(async move {
            let leave = place.leave.clone();
            let whole = async {
                match tls {
                    None => serve(io, peer, router, (&app, place)).await,
                    Some(tls) => {
                        let handshake = tokio::time::timeout(app.settings.limits.header_time, tls.accept(io));
                        if let Ok(Ok(io)) = handshake.await {
                            serve(Box::new(io), peer, router, (&app, place)).await;
                        }
                    }
                }
            };
            let mut whole = pin!(whole);
            tokio::select! {
                () = whole.as_mut() => {}
                () = leave.notified() => {}
            }
        });
    }
}

/// Serves the requests of one connection.
async fn serve(io: Box<dyn Duplex>, peer: Option<IpAddr>, router: Router, (app, place): (&Arc<App>, ConnectionSlot)) {
    let busy = place.busy.clone();
    let io = TokioIo::new(TimeoutIo::new(io, &app.settings.limits, busy.clone()));
    let service = hyper::service::service_fn(|mut request: hyper::Request<Incoming>| {
        busy.store(true, Ordering::Relaxed);
        let end = RequestEnd { busy: busy.clone(), _running: app.counts.begin() };
        request.extensions_mut().insert(Caller { peer, key: None });
        let mut router = router.clone();
        async move {
            let answer = router.call(request.map(Body::new)).await;
            answer.map(|a| a.map(|body| Whole { body, _end: end }))
        }
    });
    let connection = http1::Builder::new()
        // As servers usually write them: some clients read no others.
        .title_case_headers(true)
        .timer(TokioTimer::new())
        .header_read_timeout(app.settings.limits.idle_time)
        .max_buf_size(HEADER_BUFFER)
        .serve_connection(io, service);
    let mut connection = pin!(connection);
    let mut stage = app.stage.clone();
    let begun_before = *stage.borrow() == Stage::Runs;
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stage.wait_for(|s| *s > Stage::Runs), if begun_before => {}
    }
    // One that comes while the server drains is told so; the answer closes it.
    connection.as_mut().graceful_shutdown();
    let _: Result<(), _> = connection.await;
}

/// The end of a request, when it is dropped.
struct RequestEnd {
    busy: Busy,
    _running: super::app::RunningGuard,
}

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.busy.store(false, Ordering::Relaxed);
    }
}

/// An answer's body, which ends its request.
struct Whole {
    body: Body,
    _end: RequestEnd,
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
