//! A line that says that an answer is on its way, if it is not there soon, and what keeps it: on a terminal alone, and gone before
//! anything is written.

use std::io::Write;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::preparing::Preparation;

/// An answer that comes sooner has no line.
const SOON: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(120);
const FRAMES: [char; 8] = ['⠋', '⠙', '⠹', '⠸', '⠴', '⠦', '⠧', '⠇'];

/// What the line says; not as wide as the terminal, so that an echoed ^C does not begin another one.
#[derive(Clone)]
struct WaitingText(Arc<Mutex<String>>);

impl WaitingText {
    fn set(&self, text: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn draw(&self, frame: char, kernels: &mut Preparation) {
        let said = || self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let text = kernels.line().unwrap_or_else(said);
        show(&format!("\r\x1b[K{frame} {text}"));
    }
}

/// If nobody listens, nothing is lost.
fn show(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// The line; it goes when this does.
pub struct Waiting {
    said: WaitingText,
    /// Closed when nothing is to be shown any more.
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Begins to wait.
    pub fn new() -> Waiting {
        let said = WaitingText(Arc::new(Mutex::new("reading the prompt".into())));
        let (over, is_over) = channel();
        let shown = said.clone();
        let mut kernels = Preparation::new();
        let thread = std::thread::spawn(move || {
            if is_over.recv_timeout(SOON) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            for frame in FRAMES.iter().cycle() {
                shown.draw(*frame, &mut kernels);
                if is_over.recv_timeout(TICK) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            show("\r\x1b[K");
        });
        Waiting { said, over: Some(over), thread: Some(thread) }
    }

    /// Hears how much of a prompt is fed.
    pub fn reader(&self) -> impl FnMut(usize, usize) + 'static {
        let said = self.said.clone();
        move |done, total| said.set(format!("reading the prompt: {done} of {total} tokens"))
    }

    /// Says what else it waits for.
    pub fn say(&self, what: &str) {
        self.said.set(what.into());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.over = None;
        self.thread.take().map(JoinHandle::join);
    }
}
