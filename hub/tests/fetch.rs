//! Downloads from a server of the test's own: what comes right, what is refused, and what is left behind.
#![allow(clippy::unwrap_used)]

#[path = "fetch/hosts.rs"]
mod hosts;

use pumex_hub::{fetch, fetch_url, Error, Event, HubSettings, Watch};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as it came.
#[derive(Clone, Debug)]
struct ReceivedRequest {
    path: String,
    head: String,
}

impl ReceivedRequest {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    fn from(&self) -> usize {
        self.header("range").map_or(0, |r| r.strip_prefix("bytes=").unwrap().trim_end_matches('-').parse().unwrap())
    }
}

/// A server whose answers are bytes, one connection each.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    fn new(answer: impl Fn(&ReceivedRequest, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, asked) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, noted, answer) = (stream.unwrap(), Arc::clone(&noted), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut head = String::new();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while reader.read_line(&mut head).unwrap_or(0) > 2 {}
                    let path = head.split(' ').nth(1).unwrap_or("").to_string();
                    let request = ReceivedRequest { path, head };
                    noted.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        Server { port, asked }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn received_requests(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

fn send(stream: &mut TcpStream, status: &str, headers: &[String], body: &[u8]) {
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    headers.iter().for_each(|header| head += &format!("{header}\r\n"));
    if !headers.iter().any(|h| h.to_lowercase().starts_with("content-length")) {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    let _ = stream.write_all(format!("{head}\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}

/// The part of `all` that was asked for.
fn send_range(asked: &ReceivedRequest, stream: &mut TcpStream, all: &[u8], headers: &[String]) {
    let from = asked.from();
    if from == 0 {
        return send(stream, "200 OK", headers, all);
    }
    let range = format!("Content-Range: bytes {from}-{}/{}", all.len() - 1, all.len());
    send(stream, "206 Partial Content", &[headers, &[range]].concat(), &all[from..]);
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

fn contents(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// What the Hub says of a repository.
fn listing(files: &[(&str, &[u8])]) -> String {
    let file = |(name, data): &(&str, &[u8])| {
        let (sha, size) = (hex(data), data.len());
        format!(
            r#"{{"rfilename":{name:?},"size":{size},"blobId":"{COMMIT}","lfs":{{"sha256":"{sha}","size":{size}}}}}"#
        )
    };
    let files: Vec<String> = files.iter().map(file).collect();
    format!(r#"{{"sha":"{COMMIT}","siblings":[{}]}}"#, files.join(","))
}

/// A Hub with one file; `body` answers for it.
fn hub(all: Vec<u8>, body: impl Fn(&ReceivedRequest, &mut TcpStream, &[u8]) + Send + Sync + 'static) -> Server {
    Server::new(move |asked, stream| match asked.path.as_str() {
        path if path.starts_with("/api/") => {
            send(stream, "200 OK", &[], listing(&[("m-Q4_K_M.gguf", &all), ("m-F16.gguf", b"other")]).as_bytes());
        }
        _ => body(asked, stream, &all),
    })
}

/// A folder of its own, gone at the end.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> TemporaryFolder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("pumex-hub-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        TemporaryFolder(std::env::temp_dir().join(name))
    }

    /// The path of the one blob that there is to be.
    fn blob(&self, all: &[u8]) -> PathBuf {
        self.0.join("models--u--m/blobs").join(hex(all))
    }

    fn partial(&self, all: &[u8]) -> PathBuf {
        self.0.join("models--u--m/blobs").join(format!("{}.incomplete", hex(all)))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(folder: &TemporaryFolder, server: &Server) -> HubSettings {
    HubSettings {
        cache: folder.0.clone(),
        endpoint: server.url(),
        scope: server.url(),
        ollama: server.url(),
        token: Some("hf_secret".into()),
        offline: false,
        patience: Duration::from_millis(400),
        pause: Duration::from_millis(1),
    }
}

fn quietly(settings: &HubSettings, repo: &str) -> Result<PathBuf, Error> {
    fetch(settings, repo, None, &mut Watch { tell: &mut |_| (), stop: &AtomicBool::new(false) })
}

fn refusal_text(settings: &HubSettings, repo: &str) -> String {
    quietly(settings, repo).unwrap_err().to_string()
}

#[test]
fn a_file_goes_where_the_hubs_tools_look_for_it_and_is_not_fetched_twice() {
    let (all, folder) = (contents(700_000), TemporaryFolder::new());
    let server = hub(all.clone(), |asked, stream, all| send_range(asked, stream, all, &[]));
    let settings = settings(&folder, &server);
    let (mut most, mut begun) = (0, Vec::new());
    let mut tell = |event: Event<'_>| match event {
        Event::Bytes(bytes) => most = bytes,
        Event::Begins { name, total } => begun.push((name.to_string(), total)),
        _ => {}
    };
    let path = fetch(&settings, "u/m", None, &mut Watch { tell: &mut tell, stop: &AtomicBool::new(false) }).unwrap();
    assert_eq!(path, folder.0.join("models--u--m/snapshots").join(COMMIT).join("m-Q4_K_M.gguf"));
    assert_eq!((std::fs::read(&path).unwrap(), most), (all.clone(), all.len() as u64));
    assert_eq!(begun[0], ("m-Q4_K_M.gguf".to_string(), all.len() as u64));
    assert_eq!(std::fs::read_to_string(folder.0.join("models--u--m/refs/main")).unwrap(), COMMIT);
    #[cfg(unix)]
    assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("../../blobs").join(hex(&all)));
    assert_eq!((quietly(&settings, "u/m").unwrap(), server.received_requests().len()), (path.clone(), 3));
    // Without a network, what is there is taken.
    let offline = HubSettings { offline: true, ..settings.clone() };
    assert_eq!((quietly(&offline, "u/m:q4_k_m").unwrap(), server.received_requests().len()), (path.clone(), 3));
    assert!(refusal_text(&offline, "u/m:F16").contains("no network (--offline)"));
    let gone = HubSettings { endpoint: "http://127.0.0.1:1".into(), ..settings };
    assert_eq!(quietly(&gone, "u/m").unwrap(), path);
    assert!(refusal_text(&gone, "u/other").contains("is there a network?"));
}

#[test]
fn an_interrupted_download_goes_on_where_it_ended() {
    let (all, folder) = (contents(600_000), TemporaryFolder::new());
    let server = hub(all.clone(), |asked, stream, all| match asked.from() {
        0 => send(stream, "200 OK", &[format!("Content-Length: {}", all.len())], &all[..400_000]),
        _ => send_range(asked, stream, all, &[]),
    });
    let path = quietly(&settings(&folder, &server), "u/m").unwrap();
    assert_eq!(std::fs::read(path).unwrap(), all);
    let froms: Vec<usize> = server.received_requests()[1..].iter().map(ReceivedRequest::from).collect();
    assert_eq!(froms, [0, 400_000]);
    assert!(!folder.partial(&all).exists());
}

#[test]
fn a_part_that_another_program_left_is_used_or_found_wrong() {
    for right in [true, false] {
        let (all, folder) = (contents(300_000), TemporaryFolder::new());
        let server = hub(all.clone(), |asked, stream, all| send_range(asked, stream, all, &[]));
        std::fs::create_dir_all(folder.partial(&all).parent().unwrap()).unwrap();
        let part = if right { all[..1000].to_vec() } else { vec![9; 1000] };
        std::fs::write(folder.partial(&all), part).unwrap();
        let path = quietly(&settings(&folder, &server), "u/m").unwrap();
        assert_eq!(std::fs::read(path).unwrap(), all);
        let froms: Vec<usize> = server.received_requests()[1..].iter().map(ReceivedRequest::from).collect();
        assert_eq!(froms, if right { vec![1000] } else { vec![1000, 0] });
    }
}

#[test]
fn contents_that_are_not_those_of_the_checksum_never_get_a_name() {
    let (all, folder) = (contents(1000), TemporaryFolder::new());
    let server = hub(all.clone(), |_, stream, all| send(stream, "200 OK", &[], &vec![1; all.len()]));
    let error = refusal_text(&settings(&folder, &server), "u/m");
    assert!(error.contains(&format!("expected contents with SHA-256 {}", hex(&all))), "{error}");
    assert!(!folder.blob(&all).exists() && !folder.partial(&all).exists());
    // Likewise of another length.
    let server = hub(all.clone(), |_, stream, all| send(stream, "200 OK", &[], &all[1..]));
    assert!(refusal_text(&settings(&folder, &server), "u/m").contains("expected 1000 bytes, found 999"));
    let server = hub(all.clone(), |_, stream, all| {
        let chunked = [format!("{:x}\r\n", all.len() + 5).as_bytes(), all, b"extra\r\n0\r\n\r\n"].concat();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(&chunked);
    });
    assert!(refusal_text(&settings(&folder, &server), "u/m").contains("expected 1000 bytes, found more"));
    assert!(!folder.blob(&all).exists());
}

#[test]
fn a_token_goes_to_its_own_host_alone() {
    let (all, folder) = (contents(5000), TemporaryFolder::new());
    let far = {
        let all = all.clone();
        Server::new(move |asked, stream| send_range(asked, stream, &all, &[]))
    };
    let away = format!("Location: {}/cdn?signature=1", far.url());
    let server = hub(all.clone(), move |asked, stream, _| match asked.path.as_str() {
        "/here" => send(stream, "302 Found", std::slice::from_ref(&away), b""),
        _ => send(stream, "302 Found", &["Location: /here".to_string()], b""),
    });
    quietly(&settings(&folder, &server), "u/m").unwrap();
    assert!(server.received_requests().iter().all(|asked| asked.header("authorization") == Some("Bearer hf_secret")));
    assert_eq!(server.received_requests().len(), 3);
    assert_eq!(far.received_requests().iter().map(|asked| asked.header("authorization")).collect::<Vec<_>>(), [None]);
}

#[test]
fn refusals_say_what_to_do() {
    for (status, token, words) in [
        ("401 Unauthorized", false, "set HF_TOKEN"),
        ("401 Unauthorized", true, "is not accepted"),
        ("403 Forbidden", true, "accept the model's terms"),
        ("404 Not Found", true, "no such repository or file"),
        ("503 Busy", true, "trouble of its own"),
        ("302 Found", true, "expected a redirect to a URL"),
    ] {
        let folder = TemporaryFolder::new();
        let server =
            Server::new(move |_, stream| send(stream, status, &["Location: file:///etc/passwd".into()], b"{}"));
        let settings = HubSettings { token: token.then(|| "hf_secret".into()), ..settings(&folder, &server) };
        let error = refusal_text(&settings, "u/m");
        assert!(error.contains(words) && error.lines().count() == 1 && !error.contains("hf_secret"), "{error}");
    }
    let folder = TemporaryFolder::new();
    let server = Server::new(|asked, stream| {
        let again = format!("Location: {}x", asked.path);
        send(stream, "302 Found", &[again], b"");
    });
    assert!(refusal_text(&settings(&folder, &server), "u/m").contains("expected at most 10 redirects"));
}

#[test]
fn a_host_that_says_nothing_or_nonsense_is_given_up() {
    let folder = TemporaryFolder::new();
    let silent = Server::new(|_, _| std::thread::sleep(Duration::from_secs(20)));
    assert!(refusal_text(&settings(&folder, &silent), "u/m").contains("no answer for 0.4 s"));
    let stalling = hub(contents(300_000), |_, stream, all| {
        send(stream, "200 OK", &[format!("Content-Length: {}", all.len())], &all[..100_000]);
        std::thread::sleep(Duration::from_secs(20));
    });
    let error = refusal_text(&settings(&folder, &stalling), "u/m");
    assert!(error.contains("no data for 0.4 s") || error.contains("the connection ended"), "{error}");
    assert_eq!(std::fs::metadata(folder.partial(&contents(300_000))).unwrap().len(), 100_000);
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n".to_string(),
        "HTTP/1.1 99999 x\r\n\r\n".to_string(),
        "\0\u{1}\u{2}\r\n\r\n".to_string(),
        format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(1 << 20)),
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n[[[[[".to_string(),
        "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"sha\":\"..\"}".to_string(),
    ] {
        let server = Server::new(move |_, stream| {
            let _ = stream.write_all(answer.as_bytes());
        });
        assert_eq!(refusal_text(&settings(&folder, &server), "u/m").lines().count(), 1);
    }
}

#[test]
fn a_listing_cannot_name_files_elsewhere() {
    let folder = TemporaryFolder::new();
    let server = Server::new(|asked, stream| {
        let evil = r#"{"sha":"C","siblings":[{"rfilename":"../../../evil-Q4_K_M.gguf","size":4,"blobId":"C"},
            {"rfilename":"/tmp/evil-Q4_K_M.gguf","size":4,"blobId":"C"},{"rfilename":"evil\u0000-Q4_K_M.gguf","size":4,"blobId":"C"},
            {"rfilename":"a-Q4_K_M.gguf","size":4,"blobId":"../../../../evil"},
            {"rfilename":"b-Q4_K_M.gguf","size":-4,"blobId":"C"},{"rfilename":7},8]}"#;
        assert!(asked.path.starts_with("/api/"), "nothing is fetched");
        send(stream, "200 OK", &[], evil.replace('C', COMMIT).as_bytes());
    });
    assert!(refusal_text(&settings(&folder, &server), "u/m").contains("found no GGUF file"));
    assert!(refusal_text(&settings(&folder, &server), "../m").contains("expected user/name"));
    assert!(!folder.0.exists());
}

#[test]
fn a_stop_leaves_a_part_to_go_on_with() {
    let (all, folder) = (contents(2_000_000), TemporaryFolder::new());
    let server = hub(all.clone(), |asked, stream, all| match asked.from() {
        0 => {
            send(stream, "200 OK", &[format!("Content-Length: {}", all.len())], &all[..1_000_000]);
            std::thread::sleep(Duration::from_secs(20));
        }
        _ => send_range(asked, stream, all, &[]),
    });
    let settings = HubSettings { patience: Duration::from_secs(20), ..settings(&folder, &server) };
    let stop = AtomicBool::new(false);
    let mut tell = |event: Event<'_>| {
        if let Event::Bytes(500_000..) = event {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let stopped = fetch(&settings, "u/m", None, &mut Watch { tell: &mut tell, stop: &stop });
    assert!(matches!(stopped, Err(Error::Stopped)));
    let kept = std::fs::metadata(folder.partial(&all)).unwrap().len();
    assert!((500_000..=1_000_000).contains(&kept) && !folder.blob(&all).exists());
    assert_eq!(std::fs::read(quietly(&settings, "u/m").unwrap()).unwrap(), all);
    assert_eq!(server.received_requests().last().unwrap().from() as u64, kept);
}

#[test]
fn two_downloads_of_one_file_are_one() {
    let (all, folder) = (contents(500_000), TemporaryFolder::new());
    let server = hub(all.clone(), |asked, stream, all| {
        std::thread::sleep(Duration::from_millis(200));
        send_range(asked, stream, all, &[]);
    });
    let settings = settings(&folder, &server);
    std::thread::scope(|scope| {
        let all_of_them: Vec<_> = (0..3).map(|_| scope.spawn(|| quietly(&settings, "u/m").unwrap())).collect();
        all_of_them.into_iter().for_each(|one| assert_eq!(std::fs::read(one.join().unwrap()).unwrap(), all));
    });
    assert_eq!(server.received_requests().iter().filter(|asked| asked.path.contains("/resolve/")).count(), 1);
}

#[test]
fn a_url_is_fetched_with_its_set_and_gone_on_with_while_its_tag_stays() {
    let (old, new, folder) = (contents(200_000), vec![3; 200_000], TemporaryFolder::new());
    let turn = AtomicUsize::new(0);
    let (first, second) = (old.clone(), new.clone());
    let server = Server::new(move |asked, stream| match turn.fetch_add(1, Ordering::Relaxed) {
        0..3 => send(stream, "200 OK", &["ETag: \"old\"".into(), "Content-Length: 200000".into()], &first[..150_000]),
        _ if asked.path.contains("00002-of") => send(stream, "200 OK", &[], b"part two"),
        _ => {
            assert_eq!(asked.header("if-range"), Some("\"old\""));
            send(stream, "200 OK", &["ETag: \"new\"".into()], &second);
        }
    });
    let settings = HubSettings { endpoint: "http://hub.invalid".into(), ..settings(&folder, &server) };
    let url = format!("{}/x/m-00001-of-00002.gguf?a=b", server.url());
    let get = |settings: &HubSettings| {
        fetch_url(settings, &url, &mut Watch { tell: &mut |_| (), stop: &AtomicBool::new(false) })
    };
    assert!(get(&settings).unwrap_err().to_string().contains("the connection ended"));
    let path = get(&settings).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), new);
    assert_eq!(std::fs::read(path.with_file_name("m-00002-of-00002.gguf")).unwrap(), b"part two");
    assert!(server.received_requests().iter().all(|asked| asked.header("authorization").is_none()));
    assert_eq!(get(&HubSettings { offline: true, ..settings.clone() }).unwrap(), path);
    for bad in ["x", "ftp://a/b.gguf", "http://h/", "http://h/..", "http://h/a%00\0"] {
        let stop = AtomicBool::new(false);
        assert!(fetch_url(&settings, bad, &mut Watch { tell: &mut |_| (), stop: &stop }).is_err(), "{bad}");
    }
}

#[test]
fn a_url_of_the_hub_is_its_repositorys_file() {
    let (all, folder) = (contents(1000), TemporaryFolder::new());
    let server = hub(all.clone(), |asked, stream, all| send_range(asked, stream, all, &[]));
    let url = format!("{}/u/m/resolve/main/m-Q4_K_M.gguf?download=true", server.url());
    let stop = AtomicBool::new(false);
    let path = fetch_url(&settings(&folder, &server), &url, &mut Watch { tell: &mut |_| (), stop: &stop }).unwrap();
    assert!(path.ends_with(format!("models--u--m/snapshots/{COMMIT}/m-Q4_K_M.gguf")), "{}", path.display());
}
