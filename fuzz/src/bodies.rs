//! What is done with any bytes, one function for each reader of what strangers send: it answers, or says what is wrong, and never
//! panics. `cargo fuzz` calls them by name, and so does a test, which needs no other compiler.

#[path = "../../serve/tests/fake.rs"]
#[allow(clippy::duplicate_mod, dead_code)]
mod fake;
#[path = "media.rs"]
mod media;
#[path = "../../serve/tests/bodies.rs"]
#[allow(clippy::duplicate_mod, dead_code)]
mod requests;
#[path = "texts.rs"]
mod texts;

use pumex::adapter::{self, Layers, Lora};
use pumex::cpu::Reference;
use pumex::gguf::write::{header, Entry, ALIGNMENT};
use pumex::gguf::{Gguf, Value};
use pumex::model;
use pumex::step::{Row, RowOutput, Runner, Token, Want};
use pumex_quant::FORMATS;
use pumex_serve::http::{Address, ConnectionLimits, Endpoints, HttpSettings, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

/// A reader of bytes that anybody may send.
pub struct Target {
    /// The name that `cargo fuzz` knows the target by.
    pub name: &'static str,
    /// Reads the bytes.
    pub body: fn(&[u8]),
    /// Bytes that it takes, to be changed.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "gguf_header", body: gguf_header, seeds: headers },
    Target { name: "plan", body: plan, seeds: headers },
    Target { name: "split", body: split, seeds: splits },
    Target { name: "adapter", body: adapters, seeds: adapter_seeds },
    Target { name: "state", body: state, seeds: states },
    Target { name: "imatrix", body: imatrix, seeds: imatrices },
    Target { name: "blocks", body: blocks, seeds: block_seeds },
    Target { name: "picture", body: media::picture, seeds: media::pictures },
    Target { name: "sound", body: media::sound, seeds: media::sounds },
    Target { name: "mmproj", body: media::mmproj, seeds: media::mmprojs },
    Target { name: "grammar", body: texts::grammar, seeds: texts::grammars },
    Target { name: "template", body: texts::template, seeds: texts::templates },
    Target { name: "tokenizer", body: texts::tokenizer, seeds: texts::texts },
    Target { name: "request", body: request, seeds: request_seeds },
    Target { name: "http", body: http, seeds: http_seeds },
];

/// Runs a target.
///
/// # Panics
/// There is none of that name; what the target found.
#[allow(dead_code)] // where a test goes through all of them
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of that name");
    (target.body)(bytes);
}

fn demo() -> &'static Gguf {
    static DEMO: OnceLock<Gguf> = OnceLock::new();
    DEMO.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = [root.join("assets/demo.gguf"), root.join("../assets/demo.gguf")].into_iter().find(|p| p.exists());
        Gguf::open(&found.expect("the demo model")).expect("a model")
    })
}

/// A folder of this process and thread.
fn folder() -> PathBuf {
    let name = format!("pumex-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    let folder = std::env::temp_dir().join(name.replace(['(', ')'], ""));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Writes a file that begins with `bytes` and goes on with zeros, so that tensors lie within it.
fn sparse(name: &str, bytes: &[u8], len: u64) -> PathBuf {
    let path = folder().join(name);
    let mut file = std::fs::File::create(&path).expect("a file");
    file.write_all(bytes).and_then(|()| file.set_len(len.max(bytes.len() as u64))).expect("a file");
    path
}

// ---- GGUF

fn gguf_header(bytes: &[u8]) {
    let _ = pumex::gguf::header::parse(bytes, Path::new("fuzz"));
}

/// Keys and tensors of the demo model, as another family's, without its vocabulary.
fn model_of_family(arch: &str, more: &[(&str, Value)]) -> Vec<u8> {
    let own = demo().meta().arch().expect("a family");
    let key = |key: &str| key.strip_prefix(own).map_or(key.to_string(), |rest| format!("{arch}{rest}"));
    let kept = demo().meta().iter().filter(|(key, _)| !key.starts_with("tokenizer.") && *key != "general.architecture");
    let mut meta: Vec<(String, Value)> = vec![("general.architecture".into(), Value::Str(arch.as_bytes().to_vec()))];
    meta.extend(kept.map(|(name, value)| (key(name), value.clone())));
    meta.extend(more.iter().map(|(key, value)| (key.to_string(), value.clone())));
    header(meta.iter().map(|(key, value)| (key.as_str(), value)), &entries(|name| Some(name.to_string())), ALIGNMENT)
}

/// The demo's tensors under the names that `named` gives them.
fn entries(named: impl Fn(&str) -> Option<String>) -> Vec<Entry> {
    let entry = |t: &pumex::gguf::Tensor| {
        Some(Entry { name: named(&t.name)?, dims: t.dims.clone(), type_id: t.type_id, len_bytes: t.len_bytes })
    };
    demo().tensors().iter().filter_map(entry).collect()
}

fn headers() -> Vec<Vec<u8>> {
    model::arch::ARCHS.iter().map(|arch| model_of_family(arch.name, &[])).collect()
}

/// A model's file of any header: a plan that stays within its tensors, or an error.
fn plan(bytes: &[u8]) {
    let path = sparse("plan.gguf", bytes, 1 << 26);
    if let Ok(gguf) = Gguf::open(&path) {
        let _ = model::plan(&gguf);
        let _ = pumex::embedding::Pooling::of(&gguf);
        let _ = pumex::engine::model_info(&gguf);
    }
}

/// Both files of a set: the first one's length as 4 bytes, then both.
fn split(bytes: &[u8]) {
    let Some((len, rest)) = bytes.split_at_checked(4) else { return };
    let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]) as usize;
    let (first, second) = rest.split_at(len.min(rest.len()));
    let path = sparse("set-00001-of-00002.gguf", first, 1 << 26);
    sparse("set-00002-of-00002.gguf", second, 1 << 26);
    if let Ok(gguf) = Gguf::open(&path) {
        let _ = model::plan(&gguf);
    }
}

fn splits() -> Vec<Vec<u8>> {
    let half = |no: u32, tensors: Vec<Entry>| {
        let all = demo().tensors().len() as i32;
        let mut meta: Vec<(String, Value)> = Vec::new();
        if no == 0 {
            let own = demo().meta().iter().filter(|(key, _)| !key.starts_with("tokenizer."));
            meta.extend(own.map(|(key, value)| (key.to_string(), value.clone())));
        }
        meta.push(("split.no".into(), Value::U16(no as u16)));
        meta.push(("split.count".into(), Value::U16(2)));
        meta.push(("split.tensors.count".into(), Value::I32(all)));
        header(meta.iter().map(|(key, value)| (key.as_str(), value)), &tensors, ALIGNMENT)
    };
    let all = entries(|name| Some(name.to_string()));
    let (a, b) = all.split_at(all.len() / 2);
    let (first, second) = (half(0, a.to_vec()), half(1, b.to_vec()));
    vec![[(first.len() as u32).to_le_bytes().to_vec(), first, second].concat()]
}

/// An adapter, or control vectors: layers of the demo model that are adapted, or an error.
fn adapters(bytes: &[u8]) {
    let path = sparse("adapter.gguf", bytes, 1 << 22);
    if let Ok(lora) = Lora::open(&path) {
        let _ = adapter::attach(&mut small(), &[(lora, 1.0)], &[], Layers::default());
    }
    let _ = adapter::attach(&mut small(), &[], &[(path, 1.0)], Layers::default());
}

/// The demo model, opened anew: whoever attaches something to it keeps it.
fn small() -> Gguf {
    Gguf::open(demo().path()).expect("the demo model")
}

fn adapter_seeds() -> Vec<Vec<u8>> {
    let text = |text: &str| Value::Str(text.as_bytes().to_vec());
    let arch = demo().meta().arch().expect("a family").to_string();
    let meta = [
        ("general.architecture", text(&arch)),
        ("general.type", text("adapter")),
        ("adapter.type", text("lora")),
        ("adapter.lora.alpha", Value::F32(8.0)),
    ];
    let entry = |name: String, dims: [u64; 2]| Entry {
        name,
        dims: dims.to_vec(),
        type_id: 0,
        len_bytes: 4 * dims[0] * dims[1],
    };
    let pairs = demo().tensors().iter().filter(|t| t.name.starts_with("blk.0.") && t.dims.len() == 2);
    let pair = |t: &pumex::gguf::Tensor| {
        [entry(format!("{}.lora_a", t.name), [t.dims[0], 4]), entry(format!("{}.lora_b", t.name), [4, t.dims[1]])]
    };
    let lora: Vec<Entry> = pairs.flat_map(pair).collect();
    let width = demo().tensor("output_norm.weight").map_or(32, |t| t.dims[0]);
    let vectors: Vec<Entry> = (1..4)
        .map(|layer| Entry { name: format!("direction.{layer}"), dims: vec![width], type_id: 0, len_bytes: 4 * width })
        .collect();
    let file = |entries: &[Entry]| header(meta.iter().map(|(key, value)| (*key, value)), entries, ALIGNMENT);
    vec![file(&lora), file(&vectors)]
}

// ---- what programs of this project wrote

fn runner() -> Reference<'static> {
    Reference::new(demo(), model::plan(demo()).expect("a plan"), 64, 1, 8)
}

/// A saved sequence: it is restored whole, or the runner holds nothing of it and goes on.
fn state(bytes: &[u8]) {
    let path = sparse("state", bytes, 0);
    let mut runner = runner();
    let _ = pumex::state::load(&path, pumex::state::fingerprint(demo()), &mut runner, 0);
    // Behind the checksum, which changed bytes do not pass.
    if runner.restore(0, &mut &bytes[..]).is_err() {
        assert_eq!(runner.sequence_len(0), 0, "what was not restored");
    }
    let pos = runner.sequence_len(0) as u32;
    if (pos as usize) < runner.n_ctx() {
        let _ = runner.run(&[Row { seq: 0, pos, token: Token::Id(1), output: RowOutput::Id, medium: None }], Want::Ids);
    }
}

fn states() -> Vec<Vec<u8>> {
    let mut runner = runner();
    let ids = [1, 5, 9];
    let row =
        |(pos, id): (u32, &u32)| Row { seq: 0, pos, token: Token::Id(*id), output: RowOutput::None, medium: None };
    runner.run(&(0..).zip(&ids).map(row).collect::<Vec<_>>(), Want::Ids).expect("a step");
    let (path, mut raw) = (folder().join("saved"), Vec::new());
    pumex::state::save(&path, pumex::state::fingerprint(demo()), &ids, &mut runner, 0).expect("a file");
    runner.save(0, &mut raw).expect("bytes");
    vec![std::fs::read(path).expect("a file"), raw]
}

fn imatrix(bytes: &[u8]) {
    let _ = pumex::imatrix::Imatrix::from_legacy(bytes, Path::new("fuzz"));
    let _ = pumex::imatrix::Imatrix::open(&sparse("imatrix.gguf", bytes, 0));
}

fn imatrices() -> Vec<Vec<u8>> {
    // Entries of a name, a count of calls and of values, values; then chunks and a name.
    let name = b"blk.0.attn_q.weight";
    let mut one = [1u32.to_le_bytes(), (name.len() as u32).to_le_bytes()].concat();
    one.extend(name);
    one.extend([2u32.to_le_bytes(), 4u32.to_le_bytes()].concat());
    one.extend([0.5f32; 4].iter().flat_map(|x| x.to_le_bytes()));
    one.extend([2u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    one.push(b'x');
    vec![one]
}

/// Blocks of any format: decoding gives weights, and finite scales give finite weights.
fn blocks(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let format = &FORMATS[usize::from(*first) % FORMATS.len()];
    let blocks = rest.len() / format.block_bytes;
    let packed = &rest[..blocks * format.block_bytes];
    let mut out = vec![0f32; blocks * format.block_len];
    format.decode_row(packed, &mut out);
    if format.first_non_finite(packed).is_none() {
        assert!(out.iter().all(|w| w.is_finite() || w.abs() > 1e30), "{}", format.name);
        if out.iter().all(|w| w.is_finite() && w.abs() < 1e30) {
            let mut again = vec![0u8; packed.len()];
            format.encode_row(&out, &vec![1.0; out.len()], &mut again);
        }
    }
}

fn block_seeds() -> Vec<Vec<u8>> {
    let of = |(i, format): (usize, &pumex_quant::Format)| {
        let mut packed = vec![0; 2 * format.block_bytes];
        let x: Vec<f32> = (0..2 * format.block_len).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
        format.encode_row(&x, &vec![1.0; x.len()], &mut packed);
        [vec![i as u8], packed].concat()
    };
    FORMATS.iter().enumerate().map(of).collect()
}

// ---- requests

/// The body of a request, and bodies of each endpoint with fields of other values and types: an answer or a refusal.
fn request(bytes: &[u8]) {
    static ENDPOINTS: LazyLock<Endpoints> =
        LazyLock::new(|| Endpoints::new(fake::FakeEngine::hello(), HttpSettings::default()).expect("threads"));
    let (path, body) = requests::Bytes::new(bytes).request();
    for body in [body.to_string().into_bytes(), bytes.to_vec()] {
        if let Some((status, _)) = ENDPOINTS.ask("POST", path, body) {
            assert!(status < 500 || status == 501, "{path}: {status}");
        }
    }
}

fn request_seeds() -> Vec<Vec<u8>> {
    (0..8u8).map(|i| (0..64u8).map(|j| i.wrapping_mul(31).wrapping_add(j.wrapping_mul(17))).collect()).collect()
}

/// Bytes on a connection: an answer of HTTP, or none, and the server goes on for others.
fn http(bytes: &[u8]) {
    static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
        // Short, because many inputs lack something that the server waits for; not so short that a busy machine is too slow.
        let time = Duration::from_secs(1);
        let limits = ConnectionLimits {
            header_time: time,
            body_time: time,
            idle_time: time,
            write_time: time,
            ..ConnectionLimits::default()
        };
        let settings = HttpSettings { port: 0, limits, ..HttpSettings::default() };
        let server = Server::bind(fake::FakeEngine::hello(), settings).expect("a free port");
        let tcp = |a: &Address| if let Address::Tcp { address, .. } = a { Some(*address) } else { None };
        let address = server.addresses().iter().find_map(tcp).expect("an address");
        std::thread::spawn(move || server.run());
        address
    });
    let answer = exchange(*SERVER, bytes);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    // Where the machine is too busy for the limits, another try is not.
    let health = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let is_healthy = |_| exchange(*SERVER, health).starts_with(b"HTTP/1.1 200");
    assert!((0..3).any(is_healthy), "a server that went on would answer");
}

/// What a server answers until it closes, as it does when its limits are over.
fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(8))).expect("a time");
    // It may have closed by now.
    let _ = stream.write_all(bytes);
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut part) {
        answer.extend(&part[..n]);
    }
    answer
}

fn http_seeds() -> Vec<Vec<u8>> {
    let body = r#"{"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}"#;
    let post = |more: &str, body: &str| {
        format!("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}\r\n{body}")
    };
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let of = [
        post(&format!("Content-Length: {}\r\n", body.len()), body),
        post("Transfer-Encoding: chunked\r\n", &chunked),
        "GET /v1/models?a=%20b HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.0\r\n\r\n".into(),
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: http://x.test\r\nAccess-Control-Request-Method: POST\r\n\r\n"
            .into(),
    ];
    of.map(String::into_bytes).into()
}
