//! Pictures and sounds in bodies of all interfaces: what reaches the engine, and what is refused.

use crate::client::{get, post, run, settings, RunningServer};
use crate::fake::FakeEngine;
use pumex_serve::engine::{Generate, Medium, MediumKind, Prompt, PromptPart, MEDIA_MARK};
use pumex_serve::http::{ConnectionLimits, HttpSettings};
use serde_json::{json, Value};
use MediumKind::{Picture, Sound};

const CHAT: &str = "/v1/chat/completions";
/// The first bytes of a picture and of a sound, in base64.
const PNG: &str = "iVBORw0KGgo=";
const WAV: &str = "UklGRgAAAABXQVZFZm10IA==";

fn png() -> Vec<u8> {
    b"\x89PNG\r\n\x1a\n".to_vec()
}

fn wav() -> Vec<u8> {
    b"RIFF\0\0\0\0WAVEfmt ".to_vec()
}

fn data(kind: &str, base64: &str) -> String {
    format!("data:{kind};base64,{base64}")
}

/// A message with these parts.
fn user(parts: Value) -> Value {
    json!({"messages": [{"role": "user", "content": parts}], "max_tokens": 4})
}

/// A Responses item with these parts.
fn item(parts: Value) -> Value {
    json!({"input": [{"role": "user", "content": parts}]})
}

/// What the engine was asked for: texts with their marks, and media.
fn engine_request(request: &Generate) -> (String, Vec<Medium>) {
    let text = |part: &PromptPart| match part {
        PromptPart::Text(text) => text.clone(),
        PromptPart::Token(id) => format!("[{id}]"),
        PromptPart::Medium(_) => "<>".to_string(),
    };
    let texts = match &request.prompt {
        Prompt::Parts(parts) => parts.iter().map(text).collect(),
        Prompt::Chat(chat) => {
            let content = |message: &Value| match &message["content"] {
                Value::Array(parts) => parts.iter().map(|p| p["text"].as_str().unwrap().to_string() + "|").collect(),
                other => other.as_str().unwrap().to_string(),
            };
            chat.messages.iter().map(content).collect::<Vec<_>>().join(" / ").replace(MEDIA_MARK, "<>")
        }
        Prompt::Infill { .. } => "a gap".into(),
    };
    (texts, request.prompt.media().into_iter().cloned().collect())
}

/// Path, body, what the engine sees of texts, and its media's kinds and fields.
type MediaCase = (&'static str, Value, &'static str, Vec<(MediumKind, &'static str)>);

fn right() -> Vec<MediaCase> {
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let sound = json!({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}});
    let (png, wav) = (data("image/png", PNG), data("audio/wav", WAV));
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let (first, second) = ("messages/0/content/0/image_url/url", "messages/0/content/1/image_url/url");
    vec![
        (CHAT, user(json!([picture(&png)])), "<>|", vec![(Picture, first)]),
        (CHAT, user(json!([text("a"), picture(&png), text("b")])), "a|<>|b|", vec![(Picture, second)]),
        (
            CHAT,
            user(json!([picture(&png), sound, text("b")])),
            "<>|<>|b|",
            vec![(Picture, first), (Sound, "messages/0/content/1/input_audio/data")],
        ),
        (
            CHAT,
            user(json!([{"type": "input_image", "image_url": png, "detail": "auto"}])),
            "<>|",
            vec![(Picture, "messages/0/content/0/image_url")],
        ),
        (
            CHAT,
            user(json!([{"type": "audio_url", "audio_url": {"url": wav}}])),
            "<>|",
            vec![(Sound, "messages/0/content/0/audio_url/url")],
        ),
        (CHAT, user(json!([picture("data:;base64,iVBORw0KGgo")])), "<>|", vec![(Picture, first)]),
        (CHAT, user(json!([picture("DATA:Image/PNG;BASE64,iVBO\nRw0KGgo=")])), "<>|", vec![(Picture, first)]),
        (
            "/v1/responses",
            item(json!([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": png}])),
            "a|<>|",
            vec![(Picture, "input/0/content/1/image_url")],
        ),
        ("/v1/responses", item(json!([sound])), "<>|", vec![(Sound, "input/0/content/0/input_audio/data")]),
        ("/v1/messages", user(json!([text("a"), image])), "a|<>|", vec![(Picture, "messages/0/content/1/source/data")]),
        (
            "/v1/messages",
            user(json!([{"type": "tool_result", "tool_use_id": "x", "content": [text("a"), image]}])),
            "a<>",
            vec![(Picture, "messages/0/content/0/content/1/source/data")],
        ),
        (
            "/v1/messages",
            user(json!([{"type": "document", "source": {"type": "content", "content": [image]}}])),
            "<document>\n<>\n</document>|",
            vec![(Picture, "messages/0/content/0/source/content/0/source/data")],
        ),
        (
            "/api/chat",
            json!({"messages": [{"role": "user", "content": "a", "images": [PNG, PNG]}]}),
            "<><>a",
            vec![(Picture, "messages/0/images/0"), (Picture, "messages/0/images/1")],
        ),
        ("/api/generate", json!({"prompt": "a", "images": [PNG]}), "<>a", vec![(Picture, "images/0")]),
        ("/api/generate", json!({"prompt": "a", "images": [WAV], "raw": true}), "<>a", vec![(Sound, "images/0")]),
        (
            "/completion",
            json!({"prompt": {"prompt_string": format!("a{MEDIA_MARK}b{MEDIA_MARK}"), "multimodal_data": [PNG, WAV]}}),
            "a<>b<>",
            vec![(Picture, "prompt/multimodal_data/0"), (Sound, "prompt/multimodal_data/1")],
        ),
        (
            "/v1/completions",
            json!({"prompt": [{"prompt_string": MEDIA_MARK, "multimodal_data": [PNG]}]}),
            "<>",
            vec![(Picture, "prompt/0/multimodal_data/0")],
        ),
        // Where there are no media, the mark is text as any other.
        ("/completion", json!({"prompt": MEDIA_MARK}), MEDIA_MARK, vec![]),
        (CHAT, user(json!(MEDIA_MARK)), "<>", vec![]),
    ]
}

#[test]
fn media_reach_the_engine_in_order_and_a_mark_stands_for_each() {
    let fake = FakeEngine::takes(true, true);
    let server = run(fake.clone(), settings());
    for (path, body, texts, media) in right() {
        let reply = post(server.address, path, &body);
        assert_eq!(reply.status, 200, "{path} {body}: {}", reply.text());
        let (found, list) = engine_request(&fake.last());
        assert_eq!(found, texts, "{path} {body}");
        let each: Vec<(MediumKind, &str)> = list.iter().map(|m| (m.kind, m.field.as_str())).collect();
        assert_eq!(each, media, "{path} {body}");
        for medium in &list {
            let expected = if medium.kind == Picture { png() } else { wav() };
            assert_eq!((medium.bytes.as_ref(), medium.max_tokens), (expected.as_slice(), None), "{path} {body}");
        }
    }
}

#[test]
fn a_low_detail_bounds_the_tokens_of_its_picture_alone() {
    let fake = FakeEngine::takes(true, false);
    let server = run(fake.clone(), settings());
    let url = data("image/png", PNG);
    let parts = json!([{"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url, "detail": "low"}]);
    assert_eq!(post(server.address, CHAT, &user(parts)).status, 200);
    let bounds: Vec<Option<usize>> = engine_request(&fake.last()).1.iter().map(|m| m.max_tokens).collect();
    assert!(bounds[0].is_some_and(|n| n > 0) && bounds[1].is_none() && bounds[2] == bounds[0], "{bounds:?}");
}

/// Path, body, what the message says, and its field, where the API says one.
fn wrong() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let picture = |url: Value| user(json!([{"type": "image_url", "image_url": url}]));
    let sound = |audio: Value| user(json!([{"type": "input_audio", "input_audio": audio}]));
    let (url, inner) = ("messages[0].content[0].image_url.url", "messages[0].content[0].image_url");
    let (png, of_data) = (data("image/png", PNG), "messages[0].content[0].input_audio.data");
    let anthropic = |source: Value| user(json!([{"type": "image", "source": source}]));
    let prompt = |text: &str, list: Value| json!({"prompt": {"prompt_string": text, "multimodal_data": list}});
    let kind = "messages[0].content[0].type";
    let marked = json!([{"type": "image_url", "image_url": {"url": png}}, {"type": "text", "text": MEDIA_MARK}]);
    vec![
        (CHAT, picture(json!({"url": "data:image/png;base64,%"})), "expected base64", url),
        (CHAT, picture(json!({"url": "data:image/png;base64,"})), "found none", url),
        (CHAT, picture(json!({"url": "data:image/png,abc"})), "not base64", url),
        (CHAT, picture(json!({"url": data("audio/wav", WAV)})), "begins with image/", url),
        (CHAT, picture(json!({"url": data("video/mp4", WAV)})), "begins with image/", url),
        (CHAT, picture(json!({"url": PNG})), "begins with data:", url),
        (CHAT, picture(json!({"url": "ftp://example.org/a.png"})), "begins with data:", url),
        (CHAT, picture(json!({"url": ""})), "begins with data:", url),
        (CHAT, picture(json!({})), "required", url),
        (CHAT, picture(json!(5)), "expected a URL", inner),
        (
            CHAT,
            picture(json!({"url": png, "detail": "huge"})),
            "expected one of",
            "messages[0].content[0].image_url.detail",
        ),
        (
            CHAT,
            user(json!([{"type": "input_image", "file_id": "f"}])),
            "keeps no files",
            "messages[0].content[0].file_id",
        ),
        (CHAT, user(json!([{"type": "image_url"}])), "required", inner),
        (CHAT, sound(json!({"data": "!", "format": "wav"})), "expected base64", of_data),
        (CHAT, sound(json!({"format": "wav"})), "required", of_data),
        (CHAT, sound(json!({"data": png})), "begins with audio/", of_data),
        (
            CHAT,
            sound(json!({"data": WAV, "format": "aiff"})),
            "expected one of",
            "messages[0].content[0].input_audio.format",
        ),
        (CHAT, user(json!([{"type": "video_url", "video_url": {"url": "x"}}])), "video input is not supported", kind),
        (CHAT, user(json!([{"type": "input_video", "input_video": {}}])), "video input is not supported", kind),
        (CHAT, user(json!([{"type": "file", "file": {}}])), "file input is not supported", kind),
        (CHAT, user(marked), MEDIA_MARK, ""),
        (
            "/v1/responses",
            item(json!([{"type": "input_image", "file_id": "f"}])),
            "keeps no files",
            "input[0].content[0].file_id",
        ),
        (
            "/v1/responses",
            item(json!([{"type": "input_file"}])),
            "file input is not supported",
            "input[0].content[0].type",
        ),
        ("/v1/messages", anthropic(json!({"type": "file", "file_id": "f"})), "keeps no files", ""),
        (
            "/v1/messages",
            anthropic(json!({"type": "base64", "media_type": "application/pdf", "data": PNG})),
            "image/",
            "",
        ),
        ("/v1/messages", anthropic(json!({"type": "base64", "media_type": "image/png", "data": "?"})), "base64", ""),
        ("/v1/messages", anthropic(json!({"type": "base64", "media_type": "image/png"})), "required", ""),
        ("/v1/messages", user(json!([{"type": "image"}])), "required", ""),
        ("/api/chat", json!({"messages": [{"role": "user", "images": ["?"]}]}), "expected base64", ""),
        ("/api/chat", json!({"messages": [{"role": "user", "images": [{}]}]}), "/messages/0/images/0", ""),
        ("/api/chat", json!({"messages": [{"role": "user", "content": MEDIA_MARK, "images": [PNG]}]}), MEDIA_MARK, ""),
        ("/api/generate", json!({"prompt": "a", "suffix": "b", "images": [PNG]}), "gap", ""),
        ("/api/generate", json!({"prompt": MEDIA_MARK, "raw": true, "images": [PNG]}), "found it 2 times", ""),
        ("/completion", prompt("a", json!([PNG])), "found it 0 times", "prompt"),
        ("/completion", prompt("<__media__><__media__>", json!([PNG])), "found it 2 times", "prompt"),
        ("/completion", prompt("<__media__>", json!(["?"])), "expected base64", "prompt.multimodal_data[0]"),
        ("/completion", prompt("<__media__>", json!([5])), "expected base64", "prompt.multimodal_data[0]"),
        ("/completion", prompt("<__media__>", json!("x")), "expected a list", "prompt.multimodal_data"),
        (
            "/completion",
            json!({"prompt": "a", "image_data": [{"data": PNG, "id": 1}]}),
            "multimodal_data",
            "image_data",
        ),
        (
            "/v1/embeddings",
            json!({"input": {"prompt_string": MEDIA_MARK, "multimodal_data": [PNG]}}),
            "only text",
            "input",
        ),
    ]
}

#[test]
fn media_that_are_wrong_are_refused_by_their_field() {
    let server = run(FakeEngine::takes(true, true), settings());
    for (path, body, says, field) in wrong() {
        let reply = post(server.address, path, &body);
        let (text, error) = (reply.text(), reply.json());
        assert!(reply.status == 400 && text.contains(says), "{path} {body}: {} {text}", reply.status);
        if !field.is_empty() {
            assert_eq!(error["error"]["param"], field, "{path} {body}: {text}");
        }
        // What was sent may be long.
        assert!(text.len() < 500 && !text.contains(PNG), "{text}");
    }
}

#[test]
fn models_are_sent_only_what_they_take() {
    for (vision, audio) in [(false, false), (true, false), (false, true)] {
        let fake = FakeEngine::takes(vision, audio);
        let server = run(fake.clone(), settings());
        for (path, body, _, media) in right() {
            let takes = media.iter().all(|(kind, _)| if *kind == Picture { vision } else { audio });
            let reply = post(server.address, path, &body);
            assert_eq!(reply.status, if takes { 200 } else { 400 }, "{path} {body}: {}", reply.text());
            if !takes {
                let text = reply.text();
                let reads = if vision { "text and images" } else { "text" };
                assert!(text.contains("input is not supported - this model reads "), "{text}");
                assert!(text.contains(reads), "{text}");
            }
        }
        let props = get(server.address, "/props").json();
        assert_eq!(props["modalities"], json!({"vision": vision, "audio": audio, "video": false}));
        assert_eq!(props["media_marker"], MEDIA_MARK);
        let about = post(server.address, "/api/show", &json!({"model": "small"})).json();
        let can = |name: &str| about["capabilities"].as_array().unwrap().contains(&json!(name));
        assert_eq!((can("completion"), can("vision"), can("audio")), (true, vision, audio), "{about}");
        let inputs = &get(server.address, "/v1/models").json()["data"][0]["architecture"]["input_modalities"];
        let has = |name: &str| inputs.as_array().unwrap().contains(&json!(name));
        assert_eq!((has("text"), has("image"), has("audio")), (true, vision, audio), "{inputs}");
    }
}

#[test]
fn tokens_are_counted_and_templates_applied_with_media() {
    let server = run(FakeEngine::takes(true, true), settings());
    let image = json!({"type": "image_url", "image_url": {"url": data("image/png", PNG)}});
    let source = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}});
    let bad = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}});
    let applied = post(server.address, "/apply-template", &user(json!([image]))).json();
    assert!(applied["prompt"].as_str().unwrap().contains(MEDIA_MARK), "{applied}");
    let counts = |path: &str, body: &Value| post(server.address, path, body).json()["input_tokens"].as_u64().unwrap();
    assert!(counts("/v1/messages/count_tokens", &user(json!([source]))) > 0);
    assert!(counts("/v1/chat/completions/input_tokens", &user(json!([image]))) > 0);
    assert!(counts("/v1/responses/input_tokens", &item(json!([image]))) > 0);
    assert_eq!(post(server.address, "/apply-template", &user(json!([bad]))).status, 400);
}

#[test]
fn media_are_bounded_in_number_and_bytes_and_what_they_take_is_given_back() {
    let parts = |count: usize, base64: &str| {
        let url = data("image/png", base64);
        user(vec![json!({"type": "image_url", "image_url": {"url": url}}); count].into())
    };
    let long = "AAAA".repeat(10_000);
    let limits = ConnectionLimits { media: 2, medium: 20_000, ..ConnectionLimits::default() };
    let server = run(FakeEngine::takes(true, true), HttpSettings { limits, ..settings() });
    for (body, says) in [(parts(3, PNG), "at most 2 media"), (parts(1, &long), "at most 20000 bytes")] {
        let reply = post(server.address, CHAT, &body);
        assert!(reply.status == 400 && reply.text().contains(says), "{}", reply.text());
    }
    assert_eq!(post(server.address, CHAT, &parts(2, PNG)).status, 200);
    // Room for one such request, and not for more of what it holds.
    let limits = ConnectionLimits { room: 200_000, ..ConnectionLimits::default() };
    let fake = FakeEngine::takes(true, true);
    let server = run(fake.clone(), HttpSettings { limits, ..settings() });
    for _ in 0..8 {
        assert_eq!(post(server.address, CHAT, &parts(1, &long)).status, 200);
        // What the engine holds, it holds room for.
        fake.model.seen.lock().unwrap().clear();
    }
    let reply = post(server.address, CHAT, &parts(4, &long));
    assert_eq!(reply.status, 429, "{}", reply.text());
}

#[test]
fn other_servers_and_files_are_asked_only_where_flags_say_so_and_only_in_public() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/a.png", listener.local_addr().unwrap());
    let folder = std::env::temp_dir().join(format!("pumex-served-media-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.png"), png()).unwrap();
    let body = |url: &str| user(json!([{"type": "image_url", "image_url": {"url": url}}]));
    let refused = |server: &RunningServer, url: &str, says: &str| {
        let reply = post(server.address, CHAT, &body(url));
        assert!(reply.status == 400 && reply.text().contains(says), "{url}: {} {}", reply.status, reply.text());
        assert_eq!(reply.json()["error"]["param"], "messages[0].content[0].image_url.url");
    };
    let closed = run(FakeEngine::takes(true, true), settings());
    refused(&closed, &url, "started with --allow-remote-media");
    refused(&closed, "https://example.org/a.png", "started with --allow-remote-media");
    refused(&closed, "file:///a.png", "started with --media-path");
    let fake = FakeEngine::takes(true, true);
    let both = HttpSettings { remote_media: true, media_path: Some(folder.clone()), ..settings() };
    let open = run(fake.clone(), both);
    refused(&open, &url, "not at a public address");
    refused(&open, "http://localhost/a.png", "not at a public address");
    refused(&open, "http://", "URL");
    refused(&open, "file:///../a.png", "found none");
    refused(&open, "file:///etc/passwd", "found none");
    assert!(listener.accept().is_err(), "somebody connected");
    assert_eq!(post(open.address, CHAT, &body("file:///a.png")).status, 200);
    assert_eq!(engine_request(&fake.last()).1[0].bytes.as_ref(), png());
    let source = json!({"type": "image", "source": {"type": "url", "url": "file:///a.png"}});
    assert_eq!(post(open.address, "/v1/messages", &user(json!([source]))).status, 200);
    assert_eq!(engine_request(&fake.last()).1[0].bytes.as_ref(), png());
    std::fs::remove_dir_all(&folder).unwrap();
}
