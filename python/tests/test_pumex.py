"""The package, with the demo model of the repository on the CPU."""

import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pumex
from pumex import Llama, LlamaGrammar, LlamaRAMCache, LogitsProcessorList, StoppingCriteriaList

PROMPT = "In the beginning"


def text_of(answer):
    return answer["choices"][0]["text"]


def test_a_completion_is_the_same_whole_in_parts_and_id_by_id(llm):
    whole = llm(PROMPT, max_tokens=12, temperature=0.0)
    assert whole["object"] == "text_completion" and whole["model"] == llm.model_path
    assert whole["usage"]["completion_tokens"] == 12 and whole["choices"][0]["finish_reason"] == "length"
    parts = list(llm.create_completion(PROMPT, max_tokens=12, temperature=0.0, stream=True))
    assert len(parts) > 2 and "".join(map(text_of, parts)) == text_of(whole)
    assert parts[-1]["choices"][0]["finish_reason"] == "length"
    ids = llm.tokenize(PROMPT.encode())
    assert text_of(llm(ids, max_tokens=12, temperature=0.0)) == text_of(whole)
    found = []
    for token in llm.generate(ids, temp=0.0):
        found.append(token)
        if len(found) == 12:
            break
    assert llm.detokenize(found).decode() == text_of(whole)
    assert llm.n_tokens == len(ids) + 11 and llm.input_ids[: len(ids)].tolist() == ids
    assert text_of(llm(PROMPT, max_tokens=3, echo=True, temperature=0.0)).startswith(PROMPT)


def test_conversations_stream_and_keep_to_shapes(llm):
    messages = [{"role": "user", "content": "Who floats?"}]
    whole = llm.create_chat_completion(messages, max_tokens=6, temperature=0.0)
    assert whole["object"] == "chat.completion" and whole["choices"][0]["message"]["role"] == "assistant"
    parts = list(llm.create_chat_completion(messages, max_tokens=6, temperature=0.0, stream=True))
    said = "".join(part["choices"][0]["delta"].get("content") or "" for part in parts if part["choices"])
    assert said == whole["choices"][0]["message"]["content"]
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    for given in (
        {"response_format": {"type": "json_object", "schema": schema}},
        {"grammar": LlamaGrammar.from_json_schema(json.dumps(schema))},
    ):
        answer = llm.create_chat_completion(messages, max_tokens=60, seed=1, **given)
        assert json.loads(answer["choices"][0]["message"]["content"])["a"] in (1, 2)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    answer = llm.create_chat_completion(messages, tools=[tool], tool_choice="none", max_tokens=3)
    assert answer["choices"][0]["message"].get("tool_calls") is None


def test_grammars_biases_and_probabilities(llm):
    grammar = LlamaGrammar.from_string('root ::= "yes" | "no"')
    assert text_of(llm(PROMPT, grammar=grammar, max_tokens=10)) in ("yes", "no")
    token = llm.tokenize(b"z", add_bos=False)[-1]
    assert text_of(llm(PROMPT, max_tokens=2, temperature=0.0, logit_bias={token: 1000.0})).replace("z", "").strip() == ""
    logprobs = llm(PROMPT, max_tokens=3, temperature=0.0, logprobs=2)["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["token_logprobs"]) == len(logprobs["text_offset"]) == 3
    assert all(p <= 0 for p in logprobs["token_logprobs"]) and all(len(top) >= 2 for top in logprobs["top_logprobs"])


def test_python_may_choose(llm):
    token = llm.tokenize(b"z", add_bos=False)[-1]
    seen = []

    def only_z(ids, logits):
        seen.append(len(ids))
        logits[:] = -np.inf
        logits[token] = 1.0
        return logits

    answer = llm(PROMPT, max_tokens=3, logits_processor=LogitsProcessorList([only_z]))
    assert text_of(answer).replace("z", "").strip() == "" and len(seen) == 3
    chat = llm.create_chat_completion(
        [{"role": "user", "content": "x"}], max_tokens=2, logits_processor=LogitsProcessorList([only_z]), stream=True
    )
    assert "z" in "".join(part["choices"][0]["delta"].get("content") or "" for part in chat)
    stops = StoppingCriteriaList([lambda ids, logits: len(ids) >= len(llm.tokenize(PROMPT.encode())) + 2])
    assert llm(PROMPT, max_tokens=9, stopping_criteria=stops)["usage"]["completion_tokens"] == 2


def test_sequences_give_logits_go_back_and_are_kept(demo_path):
    llm = Llama(demo_path, n_ctx=64, device="cpu", logits_all=True, vocab_only=True)
    ids = llm.tokenize(b"In the beginning was")
    llm.eval(ids)
    assert llm.scores.shape == (64, llm.n_vocab()) and llm.scores.dtype == np.single
    assert llm._scores.shape == (len(ids), llm.n_vocab())
    best = int(np.argmax(llm._scores[-1]))
    assert llm.sample(temp=0.0) == best == llm.sample(temp=0.0, idx=len(ids) - 1)
    assert np.allclose(np.exp(Llama.logits_to_logprobs(llm._scores[-1])).sum(), 1.0, atol=1e-4)
    state = llm.save_state()
    llm.reset()
    assert llm.n_tokens == 0
    other = Llama(demo_path, n_ctx=64, device="cpu", vocab_only=True)
    other.load_state(state)
    assert other.n_tokens == len(ids) and other.sample(temp=0.0) == best
    with pytest.raises(ValueError, match="64"):
        llm.eval([1] * 65)
    with pytest.raises(ValueError, match="logits_all"):
        other.sample(idx=0)


def test_states_of_prompts_are_kept_in_caches(demo_path):
    ids = [5, 6, 7, 8]
    cache = LlamaRAMCache()
    answers = []
    for _ in range(2):
        llm = Llama(demo_path, n_ctx=64, device="cpu", vocab_only=True)
        llm.set_cache(cache)
        answers.append(text_of(llm.create_completion(ids, max_tokens=4, temperature=0.0)))
    assert answers[0] == answers[1] and cache.cache_size > 0


def test_vectors(demo_path):
    llm = Llama(demo_path, n_ctx=64, device="cpu", embedding=True)
    one = llm.embed("a stone", normalize=True)
    assert abs(np.linalg.norm(one) - 1.0) < 1e-4 and len(one) == llm.n_embd()
    both = llm.embed(["a stone", "the sea"], normalize=True)
    np.testing.assert_allclose(both[0], one, atol=1e-4)
    answer = llm.create_embedding(["a stone", "the sea"])
    assert [row["index"] for row in answer["data"]] == [0, 1] and answer["usage"]["total_tokens"] > 2


def test_texts_and_ids(llm):
    for text in ("a stone", "Ünïcode ✓"):
        ids = llm.tokenize(text.encode(), add_bos=False)
        assert llm.detokenize(ids).decode().strip() == text
        pieces = b"".join(llm.detokenize([token], prev_tokens=ids[:i]) for i, token in enumerate(ids))
        assert pieces.decode().strip() == text
    assert llm.n_vocab() > 0 and llm.n_ctx() == 256 and llm.token_eos() >= -1 and llm.metadata["general.architecture"]


def test_errors_name_what_is_wrong(llm, demo_path):
    with pytest.raises(ValueError, match="no/such.gguf"):
        Llama("no/such.gguf")
    with pytest.raises(ValueError, match="rope_freq_base"):
        Llama(demo_path, rope_freq_base=2.0)
    with pytest.raises(TypeError, match="n_ctxt"):
        Llama(demo_path, n_ctxt=2)
    with pytest.raises(ValueError, match="chat_format"):
        Llama(demo_path, chat_format="no-such")
    with pytest.raises(ValueError, match="conftest"):
        Llama(__file__.replace("test_pumex", "conftest"))
    with pytest.raises(ValueError, match="grammar"):
        llm(PROMPT, grammar=LlamaGrammar.from_string("root ::= x"))
    with pytest.raises(ValueError, match="256"):
        llm("stone " * 600)
    with pytest.raises(ValueError, match="role"):
        llm.create_chat_completion([{"content": "x"}])
    with pytest.raises(ValueError, match="vocabulary"):
        llm.detokenize([10**8])


def test_other_threads_run_meanwhile(llm):
    ticks, over = [], threading.Event()

    def count():
        while not over.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    answers = []
    others = [threading.Thread(target=lambda: answers.append(llm(PROMPT, max_tokens=20))) for _ in range(2)]
    [other.start() for other in others]
    [other.join() for other in others]
    over.set()
    thread.join()
    assert len(answers) == 2 and len(ticks) > 3


def test_control_c_ends_an_answer(llm):
    main = threading.get_ident()
    timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(1000):
            llm(PROMPT, max_tokens=200)
    timer.join()
    assert text_of(llm(PROMPT, max_tokens=2))


def test_answers_may_be_left(llm):
    for _ in range(3):
        parts = llm(PROMPT, max_tokens=200, stream=True)
        next(parts)
        parts.close()
    assert llm(PROMPT, max_tokens=2)["usage"]["completion_tokens"] == 2


def test_seeds_repeat(llm):
    def draw(seed):
        return text_of(llm(PROMPT, max_tokens=8, temperature=1.5, seed=seed))

    assert draw(7) == draw(7)
    llm.set_seed(3)
    first = [text_of(llm(PROMPT, max_tokens=8, temperature=1.5)) for _ in range(2)]
    llm.set_seed(3)
    assert [text_of(llm(PROMPT, max_tokens=8, temperature=1.5)) for _ in range(2)] == first and first[0] != first[1]


def test_models_are_pickled_by_how_they_were_opened(demo_path):
    llm = Llama(demo_path, n_ctx=64, device="cpu", vocab_only=True)
    again = pickle.loads(pickle.dumps(llm))
    assert again.tokenize(b"a stone") == llm.tokenize(b"a stone")


def test_functions_are_called_and_pictures_need_a_projector(demo_path):
    llm = Llama(demo_path, n_ctx=512, device="cpu")
    messages = [{"role": "user", "content": "x"}]
    parameters = {"type": "object", "properties": {"a": {"enum": ["b"]}}, "required": ["a"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    choice = {"type": "function", "function": {"name": "f"}}
    # The demo model likes spaces between the signs of JSON too much to come to an end each time.
    given = {"tools": tools, "tool_choice": choice, "max_tokens": 120, "temperature": 1.0}
    answers = (llm.create_chat_completion(messages, seed=seed, **given)["choices"][0] for seed in range(20))
    (call,) = next(a["message"]["tool_calls"] for a in answers if a["finish_reason"] == "tool_calls")
    assert call["function"]["name"] == "f" and json.loads(call["function"]["arguments"]) == {"a": "b"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(ValueError, match="projector|mmproj|image"):
        llm.create_chat_completion([{"role": "user", "content": [picture]}], max_tokens=1)


def test_models_of_the_hub_are_found_in_its_cache(demo_path, tmp_path, monkeypatch):
    folder = tmp_path / "hub" / "models--user--demo-GGUF"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("a" * 40)
    (folder / "snapshots" / ("a" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("a" * 40) / "demo-Q4_K_M.gguf").symlink_to(demo_path)
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    llm = Llama.from_pretrained("user/demo-GGUF", filename="*Q4_K_M.gguf", n_ctx=64, device="cpu")
    assert llm(PROMPT, max_tokens=2)["usage"]["completion_tokens"] == 2
    with pytest.raises(ValueError, match="user/none"):
        Llama.from_pretrained("user/none", filename="*Q4_K_M.gguf")


def test_what_libraries_say_without_being_asked_is_no_error(demo_path):
    llm = Llama(demo_path, n_ctx=64, device="cpu", vocab_only=True, rope_freq_base=10000.0, rope_freq_scale=1.0, n_parts=-1)
    assert llm.context_params.n_ctx == 64


def test_the_package_stands_in_for_llama_cpp():
    code = (
        "import pumex.as_llama_cpp, llama_cpp, pumex;"
        "from llama_cpp.llama_chat_format import Llava15ChatHandler;"
        "from llama_cpp import Llama, LlamaGrammar; assert Llama is pumex.Llama"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_there_are_types():
    from importlib.resources import files

    assert files(pumex).joinpath("py.typed").is_file() and files(pumex).joinpath("_native.pyi").is_file()
    assert pumex.__version__
