//! How commands end: by a signal, whatever they are at, and when nobody reads any more what they write.

use std::io::Read;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::util::demo_path;

/// A process has 2 s to end on a machine of its own. Here all of them are at work at once, beside other tests.
const LIMIT: Duration = Duration::from_secs(60);

/// A command that goes on and on.
struct EndlessCommand {
    args: Vec<String>,
    variables: Vec<(&'static str, String)>,
}

fn endless(args: &str) -> EndlessCommand {
    EndlessCommand { args: args.split(' ').map(String::from).collect(), variables: Vec::new() }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(command: &EndlessCommand) -> Running {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pumex"));
    child.args(&command.args).envs(command.variables.iter().map(|(name, value)| (name, value))).env_remove("RUST_LOG");
    Running(child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success());
}

/// The exit code; none if it goes on for too long.
fn end(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pumex-ending-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Commands at work, and commands that wait for what never comes: a pipe without another end, a server that says nothing.
fn commands(folder: &std::path::Path) -> Vec<EndlessCommand> {
    let (demo, long) = (demo_path(), folder.join("long.txt"));
    // Nobody writes into the one, and nobody reads the other.
    let [pipe, sink] = ["pipe", "sink"].map(|name| folder.join(name));
    assert!(Command::new("mkfifo").arg(&pipe).arg(&sink).status().unwrap().success());
    std::fs::write(&long, "And it came to pass in those days that there went out a decree. ".repeat(20_000)).unwrap();
    let (demo, pipe, long, out) = (demo.display(), pipe.display(), long.display(), folder.join("out"));
    let (sink, out) = (sink.display(), out.display());
    let mut all: Vec<EndlessCommand> = [
        "run --device cpu -p And -n -1 --ignore-eos --context-shift".into(),
        format!("run --device reference -no-cnv -f {long} -c 1000000"),
        format!("run -f {pipe}"),
        "bench --device cpu -r 100000".into(),
        format!("perplexity --device cpu -f {long}"),
        format!("imatrix --device cpu -f {long} -o {out}"),
        format!("logits --device cpu -f {pipe} -o {out}"),
        format!("embed --device cpu -f {long}"),
        format!("tokenize -f {pipe}"),
        format!("quantize --allow-requantize {demo} {sink} Q4_0"),
        format!("merge {demo} {sink}"),
        format!("template --messages {pipe} -m {demo}"),
        "serve --device cpu --port 0".into(),
    ]
    .map(|args: String| endless(&args))
    .into();
    if cfg!(feature = "download") {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let cache = folder.join("cache").display().to_string();
        // Connections are made and never answered.
        std::mem::forget(listener);
        all.push(EndlessCommand {
            variables: vec![("HF_ENDPOINT", address.clone()), ("HF_HUB_CACHE", cache)],
            ..endless("pull some/demo")
        });
        if cfg!(feature = "serve") {
            all.push(endless(&format!("bench-serve --url {address}")));
        }
    }
    if pumex::vk::list().is_ok_and(|found| !found.is_empty()) {
        all.push(endless("devices --self-test"));
        all.push(endless(&format!("run --device vulkan -no-cnv -f {long} -c 1000000")));
    }
    all
}

#[test]
fn every_command_ends_at_the_first_signal() {
    let folder = folder("signals");
    let commands = commands(&folder);
    for signal in ["INT", "TERM"] {
        // All at once: most of the time is theirs to wait.
        let mut running: Vec<(&EndlessCommand, Running)> = commands.iter().map(|c| (c, start(c))).collect();
        std::thread::sleep(Duration::from_secs(3));
        for (command, Running(child)) in &mut running {
            let name = command.args.join(" ");
            assert!(child.try_wait().unwrap().is_none(), "{name}: it ended by itself");
            send(signal, child);
            let served = signal == "TERM" && command.args[0] == "serve";
            assert_eq!(end(child), Some(if served { 0 } else { 130 }), "SIG{signal}: {name}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_reader_that_goes_ends_the_command_without_a_word() {
    let demo = demo_path();
    let demo = demo.to_str().unwrap();
    let long = folder("pipes").join("long.txt");
    std::fs::write(&long, "and it came to pass ".repeat(20_000)).unwrap();
    let commands: [&[&str]; 7] = [
        &["run", "--device", "cpu", "-p", "And", "-n", "-1", "--ignore-eos", "--context-shift"],
        &["run", "--device", "cpu", "-p", "And", "-n", "-1", "--ignore-eos", "--context-shift", "-v"],
        &["tokenize", "-f", long.to_str().unwrap()],
        &["flags", "--json"],
        &["man"],
        &["completions", "bash"],
        &["inspect", "-m", demo],
    ];
    for args in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pumex"));
        command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        let told: Vec<&str> =
            told.lines().filter(|line| !line.starts_with("note: ") && !line.contains(" INFO ")).collect();
        assert_eq!((child.wait().unwrap().code(), told), (Some(141), Vec::new()), "{args:?}");
    }
    // Some of it was read.
    let mut child = Command::new(env!("CARGO_BIN_EXE_pumex"))
        .args(commands[0])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut some = [0; 3];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert_eq!((child.wait().unwrap().code(), &some), (Some(141), b"And"));
    std::fs::remove_dir_all(long.parent().unwrap()).unwrap();
}
