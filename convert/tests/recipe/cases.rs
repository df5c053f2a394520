//! A folder of every family, and of what its members differ in.

use super::vocabularies::{bpe, plain, spm, word_piece};
use super::RecipeFolder;
use safetensors::tensor::Dtype::{self, BF16, F16, F32, U8};
use serde_json::{json, Value};

const WIDTH: usize = 64;
const VOCAB: usize = 272;
const FF: usize = 96;

/// A configuration with what all have.
fn config(class: &str, model_type: &str, more: Value) -> Value {
    let mut config = json!({
        "architectures": [class], "model_type": model_type, "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16",
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// Tensors of layers: name after the layer, and shape.
fn layers(folder: &mut RecipeFolder, dtype: Dtype, tensors: &[(&str, &[usize])]) {
    for layer in 0..2 {
        tensors.iter().for_each(|(name, shape)| folder.tensor(&format!("model.layers.{layer}.{name}"), shape, dtype));
    }
}

fn ends(folder: &mut RecipeFolder, dtype: Dtype, output: bool) {
    folder.tensor("model.embed_tokens.weight", &[VOCAB, WIDTH], dtype);
    folder.tensor("model.norm.weight", &[WIDTH], dtype);
    if output {
        folder.tensor("lm_head.weight", &[VOCAB, WIDTH], dtype);
    }
}

/// Attention and a feed-forward network of the usual kind, with heads of `head`.
fn usual(folder: &mut RecipeFolder, dtype: Dtype, head: usize) {
    attention(folder, dtype, head);
    layers(
        folder,
        dtype,
        &[
            ("mlp.gate_proj.weight", &[FF, WIDTH]),
            ("mlp.up_proj.weight", &[FF, WIDTH]),
            ("mlp.down_proj.weight", &[WIDTH, FF]),
        ],
    );
}

fn attention(folder: &mut RecipeFolder, dtype: Dtype, head: usize) {
    let (q, k) = (4 * head, 2 * head);
    layers(
        folder,
        dtype,
        &[
            ("self_attn.q_proj.weight", &[q, WIDTH]),
            ("self_attn.k_proj.weight", &[k, WIDTH]),
            ("self_attn.v_proj.weight", &[k, WIDTH]),
            ("self_attn.o_proj.weight", &[WIDTH, q]),
        ],
    );
}

const NORMS: [(&str, &[usize]); 2] =
    [("input_layernorm.weight", &[WIDTH]), ("post_attention_layernorm.weight", &[WIDTH])];

fn llama() -> Vec<RecipeFolder> {
    let mut spm2 = RecipeFolder::new(
        "Llama (SentencePiece)",
        "Tiny-Llama-7B-chat-v0.2",
        &config("LlamaForCausalLM", "llama", json!({"bos_token_id": 1, "eos_token_id": 2})),
    );
    ends(&mut spm2, F16, true);
    usual(&mut spm2, F16, 16);
    layers(&mut spm2, F16, &NORMS);
    layers(&mut spm2, F32, &[("self_attn.rotary_emb.inv_freq", &[8])]);
    spm(&mut spm2, "LlamaTokenizer");

    let rope = json!({"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
        "rope_type": "llama3"});
    let more = json!({"head_dim": 24, "rope_scaling": rope, "rope_theta": 500000.0, "tie_word_embeddings": true,
        "eos_token_id": [263, 264]});
    let mut three = RecipeFolder::new("Llama 3 (BPE)", "stretched", &config("LlamaForCausalLM", "llama", more));
    ends(&mut three, BF16, false);
    usual(&mut three, BF16, 24);
    layers(&mut three, BF16, &NORMS);
    bpe(&mut three, true, true);
    three.json(
        "generation_config.json",
        &json!({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05}),
    );
    three.text(
        "README.md",
        "---\nlicense: apache-2.0\nbase_model: some-org/Big-Llama-3.1-8B\ndatasets:\n- some-org/set-one\n\
            - https://huggingface.co/datasets/other\nlanguage:\n- en\n- no\ntags:\n- text\n- small\n\
            pipeline_tag: text-generation\nlibrary_name: transformers\n---\n# A model\n",
    );

    let more = json!({"rope_theta": 1000000.0, "sliding_window": null, "head_dim": 16});
    let mut mistral = RecipeFolder::new(
        "Mistral (tokenizer.json)",
        "seeded-mistral-24b-instruct-2501",
        &config("MistralForCausalLM", "mistral", more),
    );
    ends(&mut mistral, BF16, true);
    usual(&mut mistral, BF16, 16);
    layers(&mut mistral, BF16, &NORMS);
    plain(&mut mistral);
    mistral.parts = 3;

    let more = json!({"num_local_experts": 4, "num_experts_per_tok": 2, "rope_theta": 1e6});
    let mut mixtral =
        RecipeFolder::new("Mixtral", "seeded-mixtral-8x7B", &config("MixtralForCausalLM", "mixtral", more));
    ends(&mut mixtral, BF16, true);
    attention(&mut mixtral, BF16, 16);
    layers(&mut mixtral, BF16, &NORMS);
    layers(&mut mixtral, BF16, &[("block_sparse_moe.gate.weight", &[4, WIDTH])]);
    for expert in 0..4 {
        for (name, shape) in [("w1", [FF, WIDTH]), ("w2", [WIDTH, FF]), ("w3", [FF, WIDTH])] {
            layers(&mut mixtral, BF16, &[(&format!("block_sparse_moe.experts.{expert}.{name}.weight"), &shape)]);
        }
    }
    spm(&mut mixtral, "LlamaTokenizer");

    let more =
        json!({"tie_word_embeddings": true, "rope_theta": 5000000.0, "no_rope_layer_interval": 4, "pad_token_id": 263});
    let mut smol = RecipeFolder::new("SmolLM3", "Smol-3B", &config("SmolLM3ForCausalLM", "smollm3", more));
    ends(&mut smol, BF16, false);
    usual(&mut smol, BF16, 16);
    layers(&mut smol, BF16, &NORMS);
    bpe(&mut smol, false, false);

    let more = json!({"attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
        "logits_scaling": 8.0, "tie_word_embeddings": true});
    let mut granite =
        RecipeFolder::new("Granite", "granite-3.3-2b-base", &config("GraniteForCausalLM", "granite", more));
    ends(&mut granite, BF16, false);
    usual(&mut granite, BF16, 16);
    layers(&mut granite, BF16, &NORMS);
    bpe(&mut granite, true, false);
    vec![spm2, three, mistral, mixtral, smol, granite]
}

fn qwen() -> Vec<RecipeFolder> {
    let more = json!({"tie_word_embeddings": true, "rope_theta": 1000000.0, "use_sliding_window": false, "sliding_window": 128,
        "bos_token_id": 262,
                      "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "attention_factor": 1.5}});
    let mut two = RecipeFolder::new("Qwen 2", "Qwen2.5-0.5B-Instruct", &config("Qwen2ForCausalLM", "qwen2", more));
    ends(&mut two, BF16, false);
    usual(&mut two, BF16, 16);
    layers(&mut two, BF16, &NORMS);
    layers(
        &mut two,
        BF16,
        &[("self_attn.q_proj.bias", &[64]), ("self_attn.k_proj.bias", &[32]), ("self_attn.v_proj.bias", &[32])],
    );
    bpe(&mut two, false, false);

    let norms: [(&str, &[usize]); 2] = [("self_attn.q_norm.weight", &[24]), ("self_attn.k_norm.weight", &[24])];
    let mut three = RecipeFolder::new(
        "Qwen 3",
        "qwen3",
        &config("Qwen3ForCausalLM", "qwen3", json!({"head_dim": 24, "rope_theta": 1000000})),
    );
    ends(&mut three, F32, true);
    usual(&mut three, F32, 24);
    layers(&mut three, F32, &NORMS);
    layers(&mut three, F32, &norms);
    bpe(&mut three, true, false);

    let more = json!({"head_dim": 24, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true,
                      "decoder_sparse_step": 1, "mlp_only_layers": []});
    let mut moe = RecipeFolder::new("Qwen 3 MoE", "Qwen3-30B-A3B", &config("Qwen3MoeForCausalLM", "qwen3_moe", more));
    ends(&mut moe, BF16, true);
    attention(&mut moe, BF16, 24);
    layers(&mut moe, BF16, &NORMS);
    layers(&mut moe, BF16, &norms);
    layers(&mut moe, BF16, &[("mlp.gate.weight", &[4, WIDTH])]);
    for expert in 0..4 {
        for (name, shape) in [("gate_proj", [32, WIDTH]), ("up_proj", [32, WIDTH]), ("down_proj", [WIDTH, 32])] {
            layers(&mut moe, BF16, &[(&format!("mlp.experts.{expert}.{name}.weight"), &shape)]);
        }
    }
    bpe(&mut moe, true, false);
    let mut stacked = moe.clone();
    stacked.name = "stacked-experts".into();
    stacked.title = "Qwen 3 MoE (experts together)";
    stacked.tensors.retain(|name, _| !name.contains("mlp.experts"));
    layers(
        &mut stacked,
        BF16,
        &[("mlp.experts.gate_up_proj", &[4, 64, WIDTH]), ("mlp.experts.down_proj", &[4, WIDTH, 32])],
    );
    vec![two, three, moe, stacked]
}

fn gemma() -> Vec<RecipeFolder> {
    let head = json!({"head_dim": 32, "hidden_activation": "gelu_pytorch_tanh"});
    let mut one = RecipeFolder::new("Gemma", "gemma-2b-it", &config("GemmaForCausalLM", "gemma", head));
    ends(&mut one, F16, true);
    usual(&mut one, F16, 32);
    layers(&mut one, F16, &NORMS);
    spm(&mut one, "GemmaTokenizer");

    let four: [(&str, &[usize]); 2] =
        [("pre_feedforward_layernorm.weight", &[WIDTH]), ("post_feedforward_layernorm.weight", &[WIDTH])];
    let more =
        json!({"head_dim": 32, "sliding_window": 64, "query_pre_attn_scalar": 32, "attn_logit_softcapping": 40.0});
    let mut two = RecipeFolder::new("Gemma 2", "gemma-2-9b", &config("Gemma2ForCausalLM", "gemma2", more));
    ends(&mut two, BF16, false);
    usual(&mut two, BF16, 32);
    layers(&mut two, BF16, &NORMS);
    layers(&mut two, BF16, &four);
    spm(&mut two, "GemmaTokenizer");

    let heads: [(&str, &[usize]); 2] = [("self_attn.q_norm.weight", &[32]), ("self_attn.k_norm.weight", &[32])];
    let more = json!({"head_dim": 32, "sliding_window": 64, "sliding_window_pattern": 6, "rope_local_base_freq": 10000,
        "rope_theta": 1000000,
                      "rope_scaling": {"factor": 8.0, "rope_type": "linear"}});
    let text = config("Gemma3ForCausalLM", "gemma3_text", more.clone());
    let mut three = RecipeFolder::new("Gemma 3", "gemma-3-1b-it", &text);
    ends(&mut three, BF16, false);
    usual(&mut three, BF16, 32);
    layers(&mut three, BF16, &NORMS);
    layers(&mut three, BF16, &four);
    layers(&mut three, BF16, &heads);
    spm(&mut three, "GemmaTokenizer");

    let mut text = text;
    text.as_object_mut().unwrap().remove("architectures");
    let both = json!({"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text,
        "eos_token_id": [1, 2],
                      "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 32}, "mm_tokens_per_image": 4,
                      "torch_dtype": "bfloat16"});
    let mut pictures = RecipeFolder::new("Gemma 3 (with pictures)", "gemma-3-4b-it", &both);
    for (name, tensor) in &three.tensors {
        pictures.tensors.insert(format!("language_model.{name}"), tensor.clone());
    }
    pictures.tensor("vision_tower.vision_model.embeddings.patch_embedding.weight", &[32, 3, 4, 4], BF16);
    pictures.tensor("multi_modal_projector.mm_input_projection_weight", &[32, WIDTH], BF16);
    // Rows of the embedding past the vocabulary.
    pictures.tensor("language_model.model.embed_tokens.weight", &[VOCAB + 8, WIDTH], BF16);
    spm(&mut pictures, "GemmaTokenizer");
    vec![one, two, three, pictures]
}

fn phi() -> Vec<RecipeFolder> {
    let factors = |by: f64| (0..8).map(|i| 1.0 + by * f64::from(i)).collect::<Vec<_>>();
    let more = json!({"sliding_window": 128, "original_max_position_embeddings": 64, "num_key_value_heads": 4,
                      "rope_scaling": {"type": "longrope", "long_factor": factors(0.75), "short_factor": factors(0.05)}});
    let mut three = RecipeFolder::new(
        "Phi 3 (SentencePiece)",
        "Phi-3-mini-128k-instruct",
        &config("Phi3ForCausalLM", "phi3", more),
    );
    let more = json!({"partial_rotary_factor": 0.75, "rope_scaling": null, "original_max_position_embeddings": 512,
        "tie_word_embeddings": true});
    let mut four = RecipeFolder::new("Phi 4 (BPE)", "Phi-4-mini-instruct", &config("Phi3ForCausalLM", "phi3", more));
    for (folder, kv, output) in [(&mut three, 4, true), (&mut four, 2, false)] {
        ends(folder, BF16, output);
        layers(folder, BF16, &NORMS);
        let qkv = 64 + 2 * kv * 16;
        layers(
            folder,
            BF16,
            &[
                ("self_attn.qkv_proj.weight", &[qkv, WIDTH]),
                ("self_attn.o_proj.weight", &[WIDTH, 64]),
                ("mlp.gate_up_proj.weight", &[2 * FF, WIDTH]),
                ("mlp.down_proj.weight", &[WIDTH, FF]),
            ],
        );
    }
    spm(&mut three, "LlamaTokenizer");
    bpe(&mut four, true, false);
    let settings = String::from_utf8(four.files["tokenizer_config.json"].clone()).unwrap();
    four.text("tokenizer_config.json", &settings.replace("PreTrainedTokenizerFast", "GPT2Tokenizer"));
    vec![three, four]
}

fn olmo2() -> RecipeFolder {
    let mut folder = RecipeFolder::new(
        "OLMo 2",
        "OLMo-2-1124-7B",
        &config("Olmo2ForCausalLM", "olmo2", json!({"rope_theta": 500000, "rms_norm_eps": 1e-6})),
    );
    ends(&mut folder, F32, true);
    usual(&mut folder, F32, 16);
    let norms: [(&str, &[usize]); 4] = [
        ("post_attention_layernorm.weight", &[WIDTH]),
        ("post_feedforward_layernorm.weight", &[WIDTH]),
        ("self_attn.q_norm.weight", &[64]),
        ("self_attn.k_norm.weight", &[32]),
    ];
    layers(&mut folder, F32, &norms);
    bpe(&mut folder, true, false);
    folder
}

fn gpt_oss() -> Vec<RecipeFolder> {
    let more = json!({"head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 64, "intermediate_size": 64,
                      "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
                      "layer_types": ["sliding_attention", "full_attention"]});
    let mut folder =
        RecipeFolder::new("gpt-oss (MXFP4)", "gpt-oss-20b", &config("GptOssForCausalLM", "gpt_oss", more.clone()));
    ends(&mut folder, BF16, true);
    attention(&mut folder, BF16, 16);
    layers(&mut folder, BF16, &NORMS);
    layers(
        &mut folder,
        BF16,
        &[
            ("self_attn.q_proj.bias", &[64]),
            ("self_attn.k_proj.bias", &[32]),
            ("self_attn.v_proj.bias", &[32]),
            ("self_attn.o_proj.bias", &[WIDTH]),
            ("self_attn.sinks", &[4]),
            ("mlp.router.weight", &[4, WIDTH]),
            ("mlp.router.bias", &[4]),
            ("mlp.experts.gate_up_proj_bias", &[4, 128]),
            ("mlp.experts.down_proj_bias", &[4, WIDTH]),
        ],
    );
    bpe(&mut folder, true, false);
    let mut floats = folder.clone();
    layers(
        &mut folder,
        U8,
        &[
            ("mlp.experts.gate_up_proj_blocks", &[4, 128, 2, 16]),
            ("mlp.experts.gate_up_proj_scales", &[4, 128, 2]),
            ("mlp.experts.down_proj_blocks", &[4, WIDTH, 2, 16]),
            ("mlp.experts.down_proj_scales", &[4, WIDTH, 2]),
        ],
    );
    let mut more = more;
    more.as_object_mut().unwrap().remove("quantization_config");
    floats.name = "gpt-oss-bf16".into();
    floats.title = "gpt-oss (BF16)";
    floats.json("config.json", &config("GptOssForCausalLM", "gpt_oss", more));
    layers(
        &mut floats,
        BF16,
        &[("mlp.experts.gate_up_proj", &[4, WIDTH, 128]), ("mlp.experts.down_proj", &[4, 64, WIDTH])],
    );
    vec![folder, floats]
}

fn deepseek2() -> Vec<RecipeFolder> {
    let common = json!({"num_key_value_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
                        "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_intermediate_size": 32});
    let with = |more: Value| {
        let mut all = common.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let lite = with(
        json!({"q_lora_rank": null, "n_shared_experts": 2, "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": false,
        "routed_scaling_factor": 1.0,
        "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1,
                         "mscale": 0.707, "mscale_all_dim": 0.707}}),
    );
    let three = with(
        json!({"q_lora_rank": 32, "n_shared_experts": 1, "scoring_func": "sigmoid", "norm_topk_prob": true, "n_group": 2, "topk_group": 1,
        "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 1}),
    );
    let mut lite =
        RecipeFolder::new("DeepSeek 2 Lite", "DeepSeek-V2-Lite", &config("DeepseekV2ForCausalLM", "deepseek_v2", lite));
    let mut three =
        RecipeFolder::new("DeepSeek 3", "DeepSeek-V3", &config("DeepseekV3ForCausalLM", "deepseek_v3", three));
    layers(&mut lite, BF16, &[("self_attn.q_proj.weight", &[4 * 48, WIDTH])]);
    layers(
        &mut three,
        BF16,
        &[
            ("self_attn.q_a_proj.weight", &[32, WIDTH]),
            ("self_attn.q_a_layernorm.weight", &[32]),
            ("self_attn.q_b_proj.weight", &[4 * 48, 32]),
        ],
    );
    for (folder, shared) in [(&mut lite, 64), (&mut three, 32)] {
        ends(folder, BF16, true);
        layers(folder, BF16, &NORMS);
        layers(
            folder,
            BF16,
            &[
                ("self_attn.kv_a_proj_with_mqa.weight", &[48, WIDTH]),
                ("self_attn.kv_a_layernorm.weight", &[32]),
                ("self_attn.kv_b_proj.weight", &[4 * 64, 32]),
                ("self_attn.o_proj.weight", &[WIDTH, 128]),
            ],
        );
        let feed = |folder: &mut RecipeFolder, stem: &str, ff: usize| {
            folder.tensor(&format!("{stem}.gate_proj.weight"), &[ff, WIDTH], BF16);
            folder.tensor(&format!("{stem}.up_proj.weight"), &[ff, WIDTH], BF16);
            folder.tensor(&format!("{stem}.down_proj.weight"), &[WIDTH, ff], BF16);
        };
        feed(folder, "model.layers.0.mlp", FF);
        feed(folder, "model.layers.1.mlp.shared_experts", shared);
        (0..4).for_each(|expert| feed(folder, &format!("model.layers.1.mlp.experts.{expert}"), 32));
        folder.tensor("model.layers.1.mlp.gate.weight", &[4, WIDTH], BF16);
        bpe(folder, true, false);
    }
    three.tensor("model.layers.1.mlp.gate.e_score_correction_bias", &[4], F32);
    three.tensor("model.layers.2.eh_proj.weight", &[WIDTH, 128], BF16);
    vec![lite, three]
}

fn lfm2() -> RecipeFolder {
    let mut given = config(
        "Lfm2ForCausalLM",
        "lfm2",
        json!({"layer_types": ["conv", "full_attention"], "norm_eps": 1e-5, "conv_L_cache": 3, "conv_bias": false, "block_ff_dim": 96,
               "block_auto_adjust_ff_dim": true, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 32, "rope_theta": 1000000.0}),
    );
    given.as_object_mut().unwrap().remove("rms_norm_eps");
    let mut folder = RecipeFolder::new("LFM2", "LFM2-350M", &given);
    folder.tensor("model.embed_tokens.weight", &[VOCAB, WIDTH], BF16);
    folder.tensor("model.embedding_norm.weight", &[WIDTH], BF16);
    let all: [(&str, &[usize]); 5] = [
        ("operator_norm.weight", &[WIDTH]),
        ("ffn_norm.weight", &[WIDTH]),
        ("feed_forward.w1.weight", &[64, WIDTH]),
        ("feed_forward.w2.weight", &[WIDTH, 64]),
        ("feed_forward.w3.weight", &[64, WIDTH]),
    ];
    layers(&mut folder, BF16, &all);
    folder.tensor("model.layers.0.conv.conv.weight", &[WIDTH, 1, 3], BF16);
    folder.tensor("model.layers.0.conv.in_proj.weight", &[3 * WIDTH, WIDTH], BF16);
    folder.tensor("model.layers.0.conv.out_proj.weight", &[WIDTH, WIDTH], BF16);
    let of_attention: [(&str, &[usize]); 6] = [
        ("q_proj", &[64, WIDTH]),
        ("k_proj", &[32, WIDTH]),
        ("v_proj", &[32, WIDTH]),
        ("out_proj", &[WIDTH, 64]),
        ("q_layernorm", &[16]),
        ("k_layernorm", &[16]),
    ];
    for (name, shape) in of_attention {
        folder.tensor(&format!("model.layers.1.self_attn.{name}.weight"), shape, BF16);
    }
    bpe(&mut folder, true, true);
    folder
}

fn bert() -> Vec<RecipeFolder> {
    let given = |class: &str, more: Value| {
        let mut config = json!({
            "architectures": [class], "model_type": "bert", "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 32, "vocab_size": 16, "type_vocab_size": 2,
            "layer_norm_eps": 1e-12, "pad_token_id": 0,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let mut bert = RecipeFolder::new("BERT", "all-MiniLM-L2-v2", &given("BertModel", json!({})));
    let pairs = |folder: &mut RecipeFolder, begin: &str, name: &str, shape: &[usize]| {
        folder.tensor(&format!("{begin}{name}.weight"), shape, F32);
        folder.tensor(&format!("{begin}{name}.bias"), &shape[..1], F32);
    };
    let fill = |folder: &mut RecipeFolder, begin: &str| {
        folder.tensor(&format!("{begin}embeddings.word_embeddings.weight"), &[16, WIDTH], F32);
        folder.tensor(&format!("{begin}embeddings.position_embeddings.weight"), &[32, WIDTH], F32);
        folder.tensor(&format!("{begin}embeddings.token_type_embeddings.weight"), &[2, WIDTH], F32);
        pairs(folder, begin, "embeddings.LayerNorm", &[WIDTH]);
        for layer in 0..2 {
            for (name, shape) in [
                ("attention.self.query", vec![WIDTH, WIDTH]),
                ("attention.self.key", vec![WIDTH, WIDTH]),
                ("attention.self.value", vec![WIDTH, WIDTH]),
                ("attention.output.dense", vec![WIDTH, WIDTH]),
                ("attention.output.LayerNorm", vec![WIDTH]),
                ("intermediate.dense", vec![FF, WIDTH]),
                ("output.dense", vec![WIDTH, FF]),
                ("output.LayerNorm", vec![WIDTH]),
            ] {
                pairs(folder, begin, &format!("encoder.layer.{layer}.{name}"), &shape);
            }
        }
        pairs(folder, begin, "pooler.dense", &[WIDTH, WIDTH]);
        word_piece(folder);
    };
    fill(&mut bert, "");
    bert.json("modules.json", &json!([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                      {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]));
    bert.json(
        "1_Pooling/config.json",
        &json!({"word_embedding_dimension": 64, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}),
    );
    let labels = json!({"id2label": {"0": "bad", "1": "good", "10": "best", "2": "fair"}, "label2id": {"bad": 0, "good": 1,
        "best": 10, "fair": 2}});
    let mut classes =
        RecipeFolder::new("BERT (classes)", "bert-classes", &given("BertForSequenceClassification", labels));
    fill(&mut classes, "bert.");
    pairs(&mut classes, "", "classifier", &[4, WIDTH]);

    let mut nomic = RecipeFolder::new(
        "Nomic BERT",
        "nomic-embed-text-v1.5",
        &json!({
            "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "n_embd": WIDTH, "n_inner": FF, "n_layer": 2,
            "n_head": 4, "n_positions": 8192,
            "max_trained_positions": 2048, "vocab_size": 16, "type_vocab_size": 2, "layer_norm_epsilon": 1e-12,
            "activation_function": "swiglu",
            "causal": false, "qkv_proj_bias": false, "mlp_fc1_bias": false, "mlp_fc2_bias": false, "prenorm": false,
            "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": false, "rotary_emb_scale_base": null, "rotary_emb_base": 1000, "rotary_scaling_factor": null,
        }),
    );
    nomic.tensor("embeddings.word_embeddings.weight", &[16, WIDTH], F32);
    nomic.tensor("embeddings.token_type_embeddings.weight", &[2, WIDTH], F32);
    pairs(&mut nomic, "", "emb_ln", &[WIDTH]);
    for layer in 0..2 {
        let begin = format!("encoder.layers.{layer}.");
        nomic.tensor(&format!("{begin}attn.Wqkv.weight"), &[192, WIDTH], F32);
        nomic.tensor(&format!("{begin}attn.out_proj.weight"), &[WIDTH, WIDTH], F32);
        nomic.tensor(&format!("{begin}mlp.fc11.weight"), &[FF, WIDTH], F32);
        nomic.tensor(&format!("{begin}mlp.fc12.weight"), &[FF, WIDTH], F32);
        nomic.tensor(&format!("{begin}mlp.fc2.weight"), &[WIDTH, FF], F32);
        pairs(&mut nomic, &begin, "norm1", &[WIDTH]);
        pairs(&mut nomic, &begin, "norm2", &[WIDTH]);
    }
    word_piece(&mut nomic);
    vec![bert, classes, nomic]
}

fn adapters() -> Vec<RecipeFolder> {
    let adapter = |title: &'static str, name: &str, base: &'static str, parts: &[(&str, usize, usize)]| {
        let mut folder = RecipeFolder {
            title,
            name: name.into(),
            parts: 1,
            begin: "adapter_model",
            base: Some(base),
            ..RecipeFolder::default()
        };
        folder.json(
            "adapter_config.json",
            &json!({"peft_type": "LORA", "base_model_name_or_path": "some/base", "r": 4,
            "lora_alpha": 16, "bias": "none"}),
        );
        for layer in 0..2 {
            for (name, rows, columns) in parts {
                let stem = format!("base_model.model.model.layers.{layer}.{name}");
                folder.tensor(&format!("{stem}.lora_A.weight"), &[32, *columns], F32);
                folder.tensor(&format!("{stem}.lora_B.weight"), &[*rows, 32], F32);
            }
        }
        folder
    };
    vec![
        adapter(
            "LoRA of Llama",
            "Tiny-Llama-lora-v2",
            "Tiny-Llama-7B-chat-v0.2",
            &[("self_attn.q_proj", 64, WIDTH), ("self_attn.k_proj", 32, WIDTH), ("mlp.down_proj", WIDTH, FF)],
        ),
        adapter(
            "LoRA of Qwen 2",
            "qwen-adapter",
            "Qwen2.5-0.5B-Instruct",
            &[("self_attn.v_proj", 32, WIDTH), ("mlp.up_proj", FF, WIDTH)],
        ),
    ]
}

/// All folders; an adapter's base stands before it.
pub fn all() -> Vec<RecipeFolder> {
    let mut all = llama();
    all.extend(qwen());
    all.extend(gemma());
    all.extend(phi());
    all.push(olmo2());
    all.extend(gpt_oss());
    all.extend(deepseek2());
    all.push(lfm2());
    all.extend(bert());
    all.extend(adapters());
    all
}
