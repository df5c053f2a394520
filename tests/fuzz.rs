//! Every target of `fuzz/` on changed seeds, with no other compiler: nothing panics, and no input takes long.
//!
//! `PUMEX_FUZZ_SECONDS` says how long all of them take together; without it each has a moment. `PUMEX_FUZZ_SEED` says what is
//! tried: a text, such as a commit, so that other inputs come round with other commits.

#[path = "../fuzz/src/bodies.rs"]
mod bodies;

use bodies::{Target, TARGETS};
use pumex::sample::rng::Rng;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What each target takes where nobody says, and the most that one input may.
const USUAL: Duration = Duration::from_millis(300);
const SLOW: Duration = Duration::from_secs(10);
/// Most bytes of an input, but of seeds that are longer.
const LONGEST: usize = 1 << 16;

/// Numbers that sizes and counts are often wrong about.
const ODD: [u64; 12] =
    [0, 1, 2, 7, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

fn next_below(rng: &mut Rng, n: usize) -> usize {
    rng.next_below(u32::try_from(n.max(1)).unwrap_or(u32::MAX)) as usize
}

/// A seed with some of its bytes changed.
fn mutate_seed(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[next_below(rng, seeds.len())].clone();
    // Some stay as they are, and a few are of nothing that is known.
    let times = [0, 1, 1, 2, 4, 16][next_below(rng, 6)];
    for _ in 0..times {
        let at = next_below(rng, bytes.len() + 1);
        let len = next_below(rng, 32).min(bytes.len() - at);
        match next_below(rng, 8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << next_below(rng, 8),
            1 if at < bytes.len() => bytes[at] = next_below(rng, 256) as u8,
            2 => {
                let odd = ODD[next_below(rng, ODD.len())].to_le_bytes();
                let width = [1, 2, 4, 8][next_below(rng, 4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&odd[..width]);
            }
            3 => drop(bytes.drain(at..at + len)),
            4 => {
                let part = bytes[at..at + len].to_vec();
                bytes.splice(at..at, part);
            }
            5 => {
                let other = &seeds[next_below(rng, seeds.len())];
                let from = next_below(rng, other.len() + 1);
                let part = other[from..(from + next_below(rng, 64)).min(other.len())].to_vec();
                bytes.splice(at..at + len, part);
            }
            6 => bytes.truncate(at),
            _ => bytes.insert(at, next_below(rng, 256) as u8),
        }
    }
    bytes.truncate(LONGEST.max(seeds.iter().map(Vec::len).max().unwrap_or(0)));
    bytes
}

/// Inputs that `cargo fuzz` found, if it ran here.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target.name);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read(file.path()).ok()).collect()
}

/// Where an input goes that a target does not stand.
fn crash_path(target: &Target, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pumex-fuzz-{}-{}", target.name, std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn seed() -> u64 {
    let text = std::env::var("PUMEX_FUZZ_SEED").unwrap_or_default();
    text.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte))
}

#[test]
fn fuzz_targets_stand_changed_seeds() {
    let told = std::env::var("PUMEX_FUZZ_SECONDS").ok().map(|s| s.parse().expect("PUMEX_FUZZ_SECONDS: seconds"));
    let each = told.map_or(USUAL, |seconds: f64| Duration::from_secs_f64(seconds / TARGETS.len() as f64));
    for target in TARGETS {
        let mut rng = Rng::new(seed());
        let mut seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        // Seeds are what the target takes.
        seeds.extend(corpus(target));
        let (begun, mut count, mut longest) = (Instant::now(), 0, Duration::ZERO);
        while count < seeds.len().min(8) || begun.elapsed() < each {
            let bytes = if count < seeds.len() { seeds[count].clone() } else { mutate_seed(&mut rng, &seeds) };
            let at = Instant::now();
            if catch_unwind(AssertUnwindSafe(|| (target.body)(&bytes))).is_err() {
                panic!("{}: see {}", target.name, crash_path(target, &bytes).display());
            }
            let took = at.elapsed();
            assert!(took < SLOW, "{}: {took:?}, see {}", target.name, crash_path(target, &bytes).display());
            longest = longest.max(took);
            count += 1;
        }
        println!("{}: {count} inputs of {} seeds, the longest took {longest:?}", target.name, seeds.len());
    }
}

/// Each target has its program for `cargo fuzz`, and each program its target.
#[test]
fn fuzz_targets_are_programs_of_cargo_fuzz() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let source = std::fs::read_to_string(root.join(format!("fuzz_targets/{}.rs", target.name))).unwrap();
        assert!(source.contains(&format!("bodies::run(\"{}\", bytes)", target.name)), "{}", target.name);
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
    }
    assert_eq!(std::fs::read_dir(root.join("fuzz_targets")).unwrap().count(), TARGETS.len());
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
