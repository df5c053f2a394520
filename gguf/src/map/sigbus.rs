//! Pages of a mapped file that the file no longer has: reading one is a signal, which by itself ends the process.
//!
//! The handler puts zeros in the place of what is gone and marks the map; whoever computes with the map looks at the mark afterwards.
//! Signals of any other address go to the handler before this one.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::Once;

/// Maps that are watched at once; others are not.
const MOST: usize = 4096;

/// A map's addresses, from `start` (0: none) to `end`, and whether some of its pages are gone.
struct WatchedMap {
    start: AtomicUsize,
    end: AtomicUsize,
    gone: AtomicBool,
}

static ALL: [WatchedMap; MOST] =
    [const { WatchedMap { start: AtomicUsize::new(0), end: AtomicUsize::new(0), gone: AtomicBool::new(false) } }; MOST];
/// The handler before this one.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// A map that is watched, until this is dropped: before the map is.
#[derive(Debug)]
pub struct Watch(usize);

impl Watch {
    /// Watches a map; none where too many are.
    pub fn of(bytes: &[u8]) -> Option<Watch> {
        install();
        let start = bytes.as_ptr() as usize;
        let free = |watched: &WatchedMap| {
            // Taken, and not yet anywhere.
            watched.start.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let at = ALL.iter().position(free)?;
        ALL[at].gone.store(false, Ordering::Relaxed);
        ALL[at].end.store(start + bytes.len(), Ordering::Relaxed);
        ALL[at].start.store(start, Ordering::Release);
        Some(Watch(at))
    }

    /// Whether something was read that the file no longer has.
    pub fn is_gone(&self) -> bool {
        ALL[self.0].gone.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        ALL[self.0].start.store(0, Ordering::Release);
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zeros are a `sigaction` without flags and with an empty mask; both pointers are of such.
        unsafe {
            if libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) != 0 {
                return;
            }
            // The handler finds it before the first signal comes.
            BEFORE.store(Box::into_raw(Box::new(before.assume_init())), Ordering::Release);
            let mut own = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            own.sa_sigaction = handle as *const () as usize;
            own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &own, ptr::null_mut());
        }
    });
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system gives a valid `info`; `errno` is this thread's.
    let (address, errno) = unsafe { ((*info).si_addr() as usize, *libc::__errno_location()) };
    let is_in = |w: &&WatchedMap| (w.start.load(Ordering::Acquire)..w.end.load(Ordering::Relaxed)).contains(&address);
    if let Some(watched) = ALL.iter().find(is_in) {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
        let (from, end) = (address - address % page, watched.end.load(Ordering::Relaxed));
        watched.gone.store(true, Ordering::Release);
        // SAFETY: from the page on, which the map has and the file has not, to the map's end there is nothing of the file; the map is read
        // only, and goes as a whole. `mmap` is a system call that takes no lock of the process.
        let placed = unsafe {
            libc::mmap(
                from as *mut libc::c_void,
                end - from,
                libc::PROT_READ,
                libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if placed != libc::MAP_FAILED {
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = errno };
            return;
        }
    }
    // SAFETY: what was stored there stays for as long as the process; it is what the system gave.
    unsafe { call_previous_handler(signal, info, context) }
}

/// # Safety
/// As a handler, with what the system gave it.
unsafe fn call_previous_handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: it is null or what `install` stored, and a handler of the kind that its flags say.
    unsafe {
        match before.as_ref().filter(|b| b.sa_sigaction != libc::SIG_DFL && b.sa_sigaction != libc::SIG_IGN) {
            Some(before) if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                std::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal, info, context);
            }
            Some(before) => std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(before.sa_sigaction)(signal),
            // The instruction comes again, and ends the process then.
            None => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}
