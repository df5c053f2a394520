//! Names of ModelScope and of Ollama's registry, and what is done with what the cache has.

use super::*;
use pumex_hub::{fetch_projector, list_cached_models, remove, RemovedFiles, ASIDE};

fn run_with_watch<T>(work: impl FnOnce(&mut Watch<'_>) -> T) -> T {
    work(&mut Watch { tell: &mut |_| (), stop: &AtomicBool::new(false) })
}

/// A registry of one model, `llama:1b`, whose layers are these.
fn registry(layers: &'static [(&'static str, &'static [u8])]) -> Server {
    Server::new(move |asked, stream| {
        let blob = |(_, data): &&(&str, &[u8])| asked.path == format!("/v2/library/llama/blobs/sha256:{}", hex(data));
        match (asked.path.as_str(), layers.iter().find(blob)) {
            ("/v2/library/llama/manifests/1b", _) => {
                assert!(asked.header("accept").unwrap().ends_with("manifest.v2+json"));
                let one = |(kind, data): &(&str, &[u8])| {
                    let (sha, size) = (hex(data), data.len());
                    format!(
                        r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"sha256:{sha}","size":{size}}}"#
                    )
                };
                let layers: Vec<String> = layers.iter().map(one).collect();
                let text = format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, layers.join(","));
                send(stream, "200 OK", &[], text.as_bytes());
            }
            (_, Some((_, data))) => send_range(asked, stream, data, &[]),
            _ => send(stream, "404 Not Found", &[], b"{}"),
        }
    })
}

const LAYERS: &[(&str, &[u8])] = &[
    ("model", b"GGUF of a model"),
    ("projector", b"GGUF of a projector"),
    ("template", b"{{ .Prompt }}"),
    ("system", b"Be brief."),
    ("params", br#"{"temperature":0.5,"stop":["x"]}"#),
];

#[test]
fn a_model_of_ollamas_registry_comes_with_what_stands_beside_it() {
    let (folder, server) = (TemporaryFolder::new(), registry(LAYERS));
    let settings = settings(&folder, &server);
    let path = run_with_watch(|w| fetch(&settings, "ollama:llama:1b", None, w)).unwrap();
    assert!(path.ends_with("llama-1b.gguf"), "{}", path.display());
    assert_eq!(std::fs::read(&path).unwrap(), LAYERS[0].1);
    let aside = std::fs::read_to_string(format!("{}{ASIDE}", path.display())).unwrap();
    let aside: serde_json::Value = serde_json::from_str(&aside).unwrap();
    assert_eq!((&aside["system"], &aside["template"]), (&"Be brief.".into(), &"{{ .Prompt }}".into()));
    assert_eq!((&aside["parameters"]["temperature"], &aside["from"]), (&0.5.into(), &"ollama:llama:1b".into()));
    let projector = run_with_watch(|w| fetch_projector(&settings, "ollama:llama:1b", w)).unwrap().unwrap();
    assert_eq!(std::fs::read(projector).unwrap(), LAYERS[1].1);
    // The Hub's token is not told to others, and nothing is fetched twice.
    assert!(server.received_requests().iter().all(|asked| asked.header("authorization").is_none()));
    let before = server.received_requests().len();
    let offline = HubSettings { offline: true, ..settings.clone() };
    assert_eq!(run_with_watch(|w| fetch(&offline, "ollama:llama:1b", None, w)).unwrap(), path);
    assert_eq!(server.received_requests().len(), before);
    assert_eq!(run_with_watch(|w| fetch(&settings, "ollama:llama:1b", None, w)).unwrap(), path);
    assert_eq!(server.received_requests().len(), before + 1, "the manifest alone");
    let error = run_with_watch(|w| fetch(&settings, "ollama:llama:2b", None, w)).unwrap_err().to_string();
    assert!(error.contains("404, no such repository or file") && !error.contains("HF_TOKEN"), "{error}");
}

#[test]
fn a_manifest_without_one_model_is_refused() {
    for (layers, words) in [
        (&[("image.tensor", b"x" as &[u8])][..], "expected one layer that is a GGUF model, found image.tensor"),
        (&[("model", b"a"), ("model", b"b")], "found model, model"),
        (&[("model", b"a"), ("adapter", b"b")], "without an adapter"),
    ] {
        let (folder, server) = (TemporaryFolder::new(), registry(layers));
        let error =
            run_with_watch(|w| fetch(&settings(&folder, &server), "ollama:llama:1b", None, w)).unwrap_err().to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{error}");
        assert!(!folder.0.exists());
    }
}

#[test]
fn a_layer_that_is_not_its_digest_never_gets_a_name() {
    let folder = TemporaryFolder::new();
    let server = Server::new(|asked, stream| match asked.path.as_str() {
        "/v2/u/m/manifests/latest" => {
            let layer = |kind: &str, data: &[u8]| {
                let sha = hex(data);
                format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"sha256:{sha}","size":4}}"#)
            };
            let text = format!(r#"{{"layers":[{},{}]}}"#, layer("model", b"good"), layer("system", b"well"));
            send(stream, "200 OK", &[], text.as_bytes());
        }
        path if path.ends_with(&hex(b"good")) => send(stream, "200 OK", &[], b"good"),
        _ => send(stream, "200 OK", &[], b"evil"),
    });
    let settings = settings(&folder, &server);
    let error = run_with_watch(|w| fetch(&settings, "ollama:u/m", None, w)).unwrap_err().to_string();
    assert!(error.contains(&format!("expected contents with SHA-256 {}", hex(b"well"))), "{error}");
    assert!(run_with_watch(|w| fetch(&HubSettings { offline: true, ..settings }, "ollama:u/m", None, w)).is_err());
}

/// ModelScope with one repository.
fn scope(files: &'static [(&'static str, &'static [u8])]) -> Server {
    Server::new(move |asked, stream| {
        let at = "/api/v1/models/u/m/repo";
        let file = |(name, _): &&(&str, &[u8])| asked.path == format!("{at}?Revision=master&FilePath={name}");
        match (asked.path.as_str(), files.iter().find(file)) {
            (path, _) if path == format!("{at}/files?Revision=master&Recursive=true") => {
                let one = |(name, data): &(&str, &[u8])| {
                    let (sha, size) = (hex(data), data.len());
                    format!(r#"{{"Path":{name:?},"Size":{size},"Sha256":"{sha}","Type":"blob"}}"#)
                };
                let mut files: Vec<String> = files.iter().map(one).collect();
                files.push(r#"{"Path":"Q4","Size":0,"Sha256":"","Type":"tree"}"#.into());
                files.push(format!(r#"{{"Path":"../evil-Q4_K_M.gguf","Size":1,"Sha256":"{}"}}"#, hex(b"e")));
                let text = format!(r#"{{"Code":200,"Data":{{"Files":[{}]}}}}"#, files.join(","));
                send(stream, "200 OK", &[], text.as_bytes());
            }
            (_, Some((_, data))) => send_range(asked, stream, data, &[]),
            _ => send(stream, "404 Not Found", &[], br#"{"Code":10010205001}"#),
        }
    })
}

#[test]
fn a_model_of_modelscope_is_chosen_by_its_type() {
    let server = scope(&[("Q4/m-Q4_K_M.gguf", b"four"), ("m-Q8_0.gguf", b"eight"), ("README.md", b"words")]);
    let folder = TemporaryFolder::new();
    let settings = settings(&folder, &server);
    let get = |settings: &HubSettings, name: &str| run_with_watch(|w| fetch(settings, name, None, w));
    let path = get(&settings, "modelscope:u/m").unwrap();
    assert!(path.ends_with("Q4/m-Q4_K_M.gguf"), "{}", path.display());
    assert_eq!(std::fs::read(get(&settings, "ms:u/m:q8_0").unwrap()).unwrap(), b"eight");
    assert_eq!(get(&HubSettings { offline: true, ..settings.clone() }, "ms:u/m").unwrap(), path);
    assert!(get(&settings, "ms:u/m:Q2_K").unwrap_err().to_string().contains("expected a file of type Q2_K"));
    assert!(get(&settings, "ms:u/other").unwrap_err().to_string().contains("404"));
    assert!(server.received_requests().iter().all(|asked| asked.header("authorization").is_none()));
}

#[test]
fn the_cache_lists_its_models_by_the_names_that_fetch_them() {
    let folder = TemporaryFolder::new();
    let all = contents(5000);
    let hub = hub(all.clone(), |asked, stream, all| match asked.path.ends_with("m-F16.gguf") {
        true => send(stream, "200 OK", &[], b"other"),
        false => send_range(asked, stream, all, &[]),
    });
    let (ollama, scope) = (registry(LAYERS), scope(&[("m-Q8_0.gguf", b"eight")]));
    let settings = HubSettings { ollama: ollama.url(), scope: scope.url(), ..settings(&folder, &hub) };
    assert!(list_cached_models(&settings).is_empty());
    for name in ["u/m:Q4_K_M", "u/m:F16", "modelscope:u/m", "ollama:llama:1b"] {
        run_with_watch(|w| fetch(&settings, name, None, w)).unwrap();
    }
    run_with_watch(|w| fetch_projector(&settings, "ollama:llama:1b", w)).unwrap();
    let names = |settings: &HubSettings| {
        list_cached_models(settings).into_iter().map(|k| (k.name, k.bytes)).collect::<Vec<_>>()
    };
    let one = |name: &str, bytes| (name.to_string(), bytes);
    let four = [one("modelscope:u/m:Q8_0", 5), one("ollama:llama:1b", 15), one("u/m:F16", 5), one("u/m:Q4_K_M", 5000)];
    assert_eq!(names(&settings), four);
    // Each name leads to its file without a network.
    let offline = HubSettings { offline: true, ..settings.clone() };
    for kept in list_cached_models(&settings) {
        assert_eq!(run_with_watch(|w| fetch(&offline, &kept.name, None, w)).unwrap(), kept.path);
    }
    assert_eq!(remove(&settings, "u/m:Q4_K_M").unwrap(), RemovedFiles { files: 1, bytes: 5000 });
    assert!(!folder.blob(&all).exists());
    assert_eq!(names(&settings), four[..3]);
    assert!(remove(&settings, "u/m:Q4_K_M").unwrap_err().to_string().contains("expected a model in"));
    assert_eq!(remove(&settings, "u/m").unwrap(), RemovedFiles { files: 1, bytes: 5 });
    assert!(!folder.0.join("models--u--m").exists(), "nothing but GGUF files was there");
    assert!(remove(&settings, "ollama:llama:2b").is_err());
    assert_eq!(remove(&settings, "ollama:llama:1b").unwrap().files, 2);
    assert_eq!(names(&settings), four[..1]);
}

#[test]
fn other_files_of_a_repository_stay_when_its_models_go() {
    let (all, folder) = (contents(100), TemporaryFolder::new());
    let server = hub(all, |asked, stream, all| send_range(asked, stream, all, &[]));
    let settings = settings(&folder, &server);
    let path = quietly(&settings, "u/m").unwrap();
    let other = path.with_file_name("config.json");
    std::fs::write(&other, "{}").unwrap();
    assert_eq!(remove(&settings, "u/m").unwrap().files, 1);
    assert!(other.is_file() && !path.exists());
    for bad in ["../u", "u/m/x", ""] {
        assert!(remove(&settings, bad).is_err(), "{bad:?}");
    }
}
