//! Sounds in forms: what a model is asked for, and the shapes of what it answers.

use crate::client::{run, send, settings, RunningServer, ServerReply};
use crate::fake::FakeEngine;
use pumex_serve::engine::{MediumKind, Prompt, MEDIA_MARK};
use serde_json::json;

const PATH: &str = "/v1/audio/transcriptions";
const WAV: &[u8] = b"RIFF\0\0\0\0WAVEfmt \r\n--";

/// Sends a form of these fields, of which the file is one.
fn ask(server: &RunningServer, fields: &[(&str, &[u8])]) -> ServerReply {
    let mut body = Vec::new();
    for (name, bytes) in fields {
        let file = if *name == "file" { "; filename=\"a.wav\"\r\nContent-Type: audio/wav" } else { "" };
        let head = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        body.extend([head.as_bytes(), bytes, b"\r\n"].concat());
    }
    body.extend(b"--edge--\r\n");
    send(server.address, "POST", PATH, &[("Content-Type", "multipart/form-data; boundary=edge")], &body)
}

#[test]
fn a_sound_is_written_down_by_a_model_that_hears() {
    let fake = FakeEngine::takes(false, true);
    let server = run(fake.clone(), settings());
    let fields: [(&str, &[u8]); 5] = [
        ("file", WAV),
        ("model", b"fake-1b"),
        ("language", b"de"),
        ("temperature", b"0.5"),
        ("prompt", b"Names: Pumex."),
    ];
    let reply = ask(&server, &fields);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let usage = json!({"type": "tokens", "input_tokens": 7, "output_tokens": 5, "total_tokens": 12,
        "input_tokens_details": {"cached_tokens": 2}});
    assert_eq!(reply.json(), json!({"text": "Hello", "usage": usage}));
    let request = fake.last();
    assert_eq!(request.sampling.temperature, Some(0.5));
    let Prompt::Chat(chat) = request.prompt else { panic!("no conversation") };
    let content = format!("Names: Pumex. (language: de){MEDIA_MARK}");
    assert_eq!(chat.messages, [json!({"role": "user", "content": content})]);
    let medium = &chat.media[0];
    assert_eq!((chat.media.len(), medium.kind, medium.bytes.as_ref()), (1, MediumKind::Sound, WAV));
    let plain = ask(&server, &[("file", WAV), ("response_format", b"text")]);
    assert_eq!((plain.text().as_str(), plain.header("content-type")), ("Hello\n", Some("text/plain; charset=utf-8")));
    assert_eq!(fake.last().sampling.temperature, Some(0.0), "what is said is not chosen at random");
    let events = ask(&server, &[("stream", b"true"), ("file", WAV)]).events();
    let kinds: Vec<(&str, &str)> = events
        .iter()
        .map(|(_, e)| (e["type"].as_str().unwrap(), e.get("delta").unwrap_or(&e["text"]).as_str().unwrap()))
        .collect();
    let delta = "transcript.text.delta";
    assert_eq!(kinds, [(delta, "Hel"), (delta, "lo"), ("transcript.text.done", "Hello")]);
    assert_eq!(events[2].1["usage"], usage);
}

#[test]
fn forms_that_are_wrong_are_refused_by_their_field() {
    let server = run(FakeEngine::takes(true, true), settings());
    let table: &[(&str, &[u8], &str)] = &[
        ("response_format", b"srt", "response_format"),
        ("timestamp_granularities[]", b"word", "timestamp_granularities[]"),
        ("include[]", b"logprobs", "include[]"),
        ("temperature", b"hot", "temperature"),
        ("temperature", b"-1", "temperature"),
        ("stream", b"maybe", "stream"),
        ("language", b"<german>", "language"),
        ("prompt", MEDIA_MARK.as_bytes(), "prompt"),
        ("prompt", b"\xff", "prompt"),
        ("max_tokens", b"-5", "max_tokens"),
    ];
    for (name, bytes, field) in table {
        let reply = ask(&server, &[("file", WAV), (*name, *bytes)]);
        assert_eq!(reply.status, 400, "{name}: {}", reply.text());
        assert_eq!(reply.json()["error"]["param"], *field, "{name}: {}", reply.text());
    }
    for fields in [&[][..], &[("model", b"x".as_slice())], &[("file", b"".as_slice())]] {
        let reply = ask(&server, fields);
        assert!(reply.status == 400 && reply.json()["error"]["param"] == "file", "{}", reply.text());
    }
    let json = send(server.address, "POST", PATH, &[("Content-Type", "application/json")], b"{}");
    assert!(json.status == 400 && json.text().contains("multipart/form-data"), "{}", json.text());
    let deaf = ask(&run(FakeEngine::takes(true, false), settings()), &[("file", WAV)]);
    assert!(deaf.status == 400 && deaf.text().contains("audio input is not supported"), "{}", deaf.text());
}
