//! Files that change while they are in use: what is computed with them then is an error that names them, and no signal ends the process.

use crate::server::process::{ask, Process};
use crate::util::{demo_path, logits};
use pumex::cpu::Reference;
use pumex::gguf::Gguf;
use pumex::map::{FileAccess, Map};
use pumex::step::{Row, RowOutput, Runner, Token};
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;

/// A copy of the demo model that a test may change.
fn copy(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pumex-{}-{name}.gguf", std::process::id()));
    std::fs::copy(demo_path(), &path).unwrap();
    path
}

fn shorten(path: &PathBuf, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn pages_that_a_file_no_longer_has_are_an_error_of_its_map_alone() {
    let (path, other) = (copy("map"), copy("other"));
    let maps = [&path, &other].map(|path| Map::open(path).unwrap());
    let read = Map::open_with(&path, FileAccess { read: true, lock: false }).unwrap();
    assert!(maps.iter().all(|map| map.check().is_ok()));
    let before = maps[0][0];
    shorten(&path, 4096);
    if cfg!(target_os = "linux") {
        let far = &maps[0][1 << 20..];
        assert!(far.iter().all(|byte| *byte == 0), "what is gone reads as zeros");
    }
    assert_eq!(maps[0][0], before, "what is left stays");
    let error = maps[0].check().unwrap_err().to_string();
    assert!(error.contains(&*path.to_string_lossy()) && error.contains("shorter"), "{error}");
    assert!(maps[1].check().is_ok() && read.check().is_ok());
    // Times of files go by ticks of some milliseconds.
    std::thread::sleep(Duration::from_millis(50));
    std::fs::write(&other, std::fs::read(&other).unwrap()).unwrap();
    assert!(maps[1].check().unwrap_err().to_string().contains("changed"), "the same bytes, written anew");
    [path, other].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn a_step_with_a_file_that_changed_is_an_error_that_names_it() {
    let path = copy("step");
    let gguf = Gguf::open(&path).unwrap();
    let mut runner = Reference::new(&gguf, pumex::model::plan(&gguf).unwrap(), 64, 1, 16);
    logits(&mut runner, &[5, 589, 346], 3);
    shorten(&path, 1 << 20);
    let row = Row { seq: 0, pos: 3, token: Token::Id(7), output: RowOutput::Id, medium: None };
    let error = runner.start(&[row]).unwrap_err().to_string();
    assert!(error.contains(&*path.to_string_lossy()) && error.contains("changed"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_server_tells_that_its_file_changed_and_ends_where_it_cannot_be_loaded_again() {
    let path = copy("served");
    let mut server = Process::start(0, &["-m", path.to_str().unwrap()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = serde_json::json!({ "prompt": "And it came to pass", "n_predict": 4, "temperature": 0 });
    let complete = |address| runtime.block_on(ask(address, "/completion", &body));
    let first = complete(server.address);
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    // Written anew, as it was: it is loaded again.
    std::fs::write(&path, std::fs::read(&path).unwrap()).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_string();
    let told = complete(server.address);
    assert!(told.starts_with("HTTP/1.1 500") && told.contains(&name) && told.contains("changed"), "{told}");
    assert!(!told.contains(path.parent().unwrap().to_str().unwrap()), "where it lies is nobody's: {told}");
    let later = |_: usize| {
        std::thread::sleep(Duration::from_millis(50));
        complete(server.address)
    };
    let again = (0..200).map(later).find(|reply| !reply.starts_with("HTTP/1.1 503")).unwrap();
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    shorten(&path, 4096);
    let told = complete(server.address);
    assert!(told.starts_with("HTTP/1.1 500") && told.contains(&name), "{told}");
    let begun = std::time::Instant::now();
    let code = loop {
        if let Some(status) = server.child().try_wait().unwrap() {
            break status.code();
        }
        assert!(begun.elapsed().as_secs() < 20, "the process ends");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(1), "no signal ended it, and whoever watches it starts another");
    std::fs::remove_file(&path).unwrap();
}
