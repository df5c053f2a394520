//! A pseudo-terminal with the program on it: what it shows is read all the time, and waited for.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use pty_process::blocking::{open, Command, Pty};

/// How long the program may show nothing: it hangs then. A busy machine is slow, but not that slow.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Terminal {
    pty: Pty,
    child: Child,
    shown: Receiver<Vec<u8>>,
    all: Vec<u8>,
    /// Bytes of `all` that were waited for.
    at: usize,
}

impl Terminal {
    pub fn start(args: &[String], state: &Path) -> Terminal {
        let (pty, pts) = open().unwrap();
        pty.resize(pty_process::Size::new(30, 100)).unwrap();
        let command = Command::new(env!("CARGO_BIN_EXE_pumex")).args(args).env("XDG_STATE_HOME", state);
        let command = command.env_remove("RUST_LOG").env_remove("NO_COLOR").env("TERM", "xterm-256color");
        let child = command.spawn(pts).unwrap();
        let reader: OwnedFd = pty.as_fd().try_clone_to_owned().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut file = std::fs::File::from(reader);
            let mut bytes = vec![0; 1 << 16];
            // Reading fails when the program has gone.
            while let Ok(n @ 1..) = file.read(&mut bytes) {
                if send.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { pty, child, shown, all: Vec::new(), at: 0 }
    }

    pub fn send(&mut self, text: &str) {
        self.pty.write_all(text.as_bytes()).unwrap();
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        self.pty.resize(pty_process::Size::new(rows, cols)).unwrap();
    }

    /// What was shown, the newest of it.
    pub fn visible_text(&self) -> String {
        String::from_utf8_lossy(&self.all[self.all.len().saturating_sub(4000)..]).into_owned()
    }

    fn more(&mut self, what: &str) -> bool {
        match self.shown.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.all.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("waiting for {what:?}, shown: {:?}", self.visible_text()),
        }
    }

    /// Waits until a text is shown behind what was waited for last.
    pub fn wait(&mut self, text: &str) {
        loop {
            let found = self.all[self.at..].windows(text.len()).position(|w| w == text.as_bytes());
            if let Some(found) = found {
                self.at += found + text.len();
                return;
            }
            assert!(self.more(text), "ended before {text:?}, shown: {:?}", self.visible_text());
        }
    }

    /// Waits until so many more bytes are shown.
    pub fn wait_for_more(&mut self, bytes: usize) {
        let want = self.all.len() + bytes;
        while self.all.len() < want {
            assert!(self.more("more"), "ended, shown: {:?}", self.visible_text());
        }
    }

    /// Waits for the end; its exit code.
    pub fn end(&mut self) -> Option<i32> {
        while self.more("the end") {}
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
