//! Every pre-tokenizer: which value of `tokenizer.ggml.pre` cuts text how.
//!
//! Expressions are those of llama.cpp, where they differ from a model's own too: letters are not told apart by case beyond
//! ASCII, and marks belong to letters only where it says so.

/// A way to cut pieces of text into smaller ones.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// At the matches of a regular expression.
    At(&'static str),
    /// Numbers into groups of three digits, counted from their end.
    Thousands,
    /// As `Thousands`, of ASCII digits alone, within numbers that stand alone.
    AsciiThousands,
    /// White space that ends no line into powers of two, largest first.
    PowersOfTwo,
    /// Before the white space at the end.
    TrailingSpace,
}

/// One pre-tokenizer: how a vocabulary of merges cuts text into words, and what it does where the file is silent.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Values of `tokenizer.ggml.pre` that mean this row.
    pub names: &'static [&'static str],
    /// Applied in turn; each cuts the pieces that the one before left.
    pub cuts: &'static [Cut],
    /// A word that is a token as a whole is that token, whatever the merges would give.
    pub whole_words: bool,
    /// Whether prompts start with BOS.
    pub add_bos: bool,
    /// Whether two texts have a separator between them.
    pub add_sep: bool,
    /// Whether decoding takes out the space before punctuation.
    pub clean: bool,
    /// Tokens are text with U+2581 for spaces, and bytes are spelt `<0xHH>`; otherwise each byte is a character.
    pub plain: bool,
}

const BASE: Row =
    Row { names: &[], cuts: &[], whole_words: false, add_bos: false, add_sep: false, clean: true, plain: false };

/// A row whose decoding keeps all spaces.
const KEEP: Row = Row { clean: false, ..BASE };

macro_rules! contraction {
    () => {
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    };
}

macro_rules! spaces {
    () => {
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    };
}

macro_rules! marks {
    () => {
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    };
}

/// Letters with upper case before lower, where case is that of ASCII; `$letters` are what counts as one.
macro_rules! cased {
    ($letters:literal, $end:expr) => {
        concat!(
            r"[^\r\n\p{L}\p{N}]?[",
            $letters,
            "--[a-z]]*[",
            $letters,
            "--[A-Z]]+",
            $end,
            r"|[^\r\n\p{L}\p{N}]?[",
            $letters,
            "--[a-z]]+[",
            $letters,
            "--[A-Z]]*",
            $end
        )
    };
}

const DIGIT: Cut = Cut::At(r"\p{N}");
const THREE: Cut = Cut::At(r"\p{N}{1,3}");
const GPT2: Cut = Cut::At(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)");
const LLAMA3: Cut = Cut::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", marks!(), spaces!()));
const QWEN2: Cut = Cut::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", marks!(), spaces!()));
const LINES: Cut = Cut::At(r"[^\n]+|[\n]+");
const CJK: Cut = Cut::At("[一-龥぀-ゟ゠-ヿ]+");
const CJK_WIDE: Cut = Cut::At(r"[[一-龥ࠀ-一가-퟿]--\s]+");
const SENTENCES: Cut = Cut::At(r" ?[^(\s|.,!?…。，、।۔،)]+");
const DEEPSEEK: Cut = Cut::At(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*",
    spaces!()
));
const GPT4O: Cut = Cut::At(concat!(
    cased!(r"\p{L}", concat!(contraction!(), "?")),
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    spaces!()
));

/// Every pre-tokenizer there is.
pub const ROWS: &[Row] = &[
    Row {
        names: &["default"],
        cuts: &[Cut::At(r"[\p{P}\$\+<=>\^~\|]+"), GPT2, Cut::At(r"\p{N}+"), Cut::At("[0-9][0-9][0-9]")],
        ..BASE
    },
    Row {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        cuts: &[LLAMA3],
        whole_words: true,
        add_bos: true,
        ..BASE
    },
    Row {
        names: &["k2-horizon"],
        cuts: &[Cut::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}",
            marks!(),
            spaces!()
        ))],
        ..KEEP
    },
    Row { names: &["dbrx", "smaug-bpe"], cuts: &[LLAMA3], ..BASE },
    Row { names: &["chatglm-bpe"], cuts: &[LLAMA3], ..BASE },
    Row { names: &["glm4", "glm5"], cuts: &[LLAMA3], whole_words: true, ..BASE },
    Row {
        names: &["minicpm5"],
        cuts: &[THREE, Cut::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+", marks!(), spaces!()))],
        whole_words: true,
        ..BASE
    },
    Row { names: &["jais-2"], cuts: &[LLAMA3, Cut::PowersOfTwo], ..BASE },
    Row {
        names: &["deepseek-llm"],
        cuts: &[
            Cut::At(r"[\r\n]"),
            Cut::At(concat!(
                r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁ",
                r"Ҋ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼ",
                r"ℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭ",
                r"Ꚁ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
            )),
            Cut::At(r"\s?[[!-/:-~！-／：-～‘-‟　-。]--[\x{3000}]]+"),
            Cut::TrailingSpace,
            CJK_WIDE,
            Cut::At(r"\p{N}+"),
        ],
        ..KEEP
    },
    Row {
        names: &["deepseek-coder"],
        cuts: &[Cut::At(r"[\r\n]"), Cut::At(r"\s?\p{L}+"), Cut::At(r"\s?\p{P}+"), CJK_WIDE, DIGIT],
        ..KEEP
    },
    Row { names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], cuts: &[THREE, CJK, DEEPSEEK], ..KEEP },
    Row {
        names: &["spark2_5"],
        cuts: &[
            THREE,
            CJK,
            Cut::At(concat!(
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
                r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
            )),
            DIGIT,
        ],
        ..KEEP
    },
    Row {
        names: &["youtu"],
        cuts: &[
            Cut::At("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
            Cut::At(concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                contraction!(),
                r"?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
                spaces!()
            )),
        ],
        whole_words: true,
        ..KEEP
    },
    Row { names: &["falcon"], cuts: &[Cut::At(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, Cut::At("[0-9][0-9][0-9]")], ..BASE },
    Row {
        names: &["starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        cuts: &[DIGIT, GPT2],
        ..BASE
    },
    Row { names: &["command-r", "smollm"], cuts: &[DIGIT, GPT2], ..KEEP },
    Row {
        names: &[
            "gpt-2",
            "mpt",
            "olmo",
            "jais",
            "phi-2",
            "jina-es",
            "jina-de",
            "gigachat",
            "jina-v2-es",
            "jina-v2-de",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "exaone4",
        ],
        cuts: &[GPT2],
        ..BASE
    },
    Row { names: &["jina-v1-en", "jina-v2-code", "roberta-bpe"], cuts: &[GPT2], add_sep: true, ..BASE },
    Row { names: &["trillion", "granite-docling"], cuts: &[GPT2], ..KEEP },
    Row { names: &["gemma4", "granite-embed-multi-311m"], cuts: &[LINES], add_bos: true, plain: true, ..BASE },
    Row { names: &["sarvam-moe"], cuts: &[LINES], plain: true, ..KEEP },
    Row { names: &["whitespace"], cuts: &[Cut::At(r"\S+")], plain: true, ..BASE },
    Row {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "grok-2", "solar-open"],
        cuts: &[QWEN2],
        ..KEEP
    },
    Row { names: &["stablelm2", "megrez"], cuts: &[QWEN2], ..BASE },
    Row { names: &["laguna"], cuts: &[LINES, QWEN2], ..KEEP },
    Row {
        names: &["qwen35"],
        cuts: &[Cut::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
            spaces!()
        ))],
        ..KEEP
    },
    Row {
        names: &["ufakzeka"],
        cuts: &[Cut::At(concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", marks!(), spaces!()))],
        ..KEEP
    },
    Row { names: &["poro-chat"], cuts: &[SENTENCES], ..KEEP },
    Row { names: &["bloom", "gpt3-finnish"], cuts: &[SENTENCES], ..BASE },
    Row { names: &["viking"], cuts: &[SENTENCES, DIGIT], ..KEEP },
    Row {
        names: &["tekken"],
        cuts: &[Cut::At(concat!(cased!(r"\p{L}", ""), r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*", spaces!()))],
        whole_words: true,
        add_bos: true,
        ..KEEP
    },
    Row { names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], cuts: &[GPT4O], ..KEEP },
    Row {
        names: &["granite-embed-multi-97m"],
        cuts: &[Cut::At(concat!(
            cased!(r"\p{L}\p{M}", concat!(contraction!(), "?")),
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
            spaces!()
        ))],
        whole_words: true,
        ..KEEP
    },
    Row {
        names: &["tiny_aya", "cohere2moe"],
        cuts: &[
            Cut::Thousands,
            Cut::At(concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                contraction!(),
                r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
                spaces!()
            )),
        ],
        ..KEEP
    },
    Row {
        names: &["chameleon"],
        cuts: &[
            Cut::At("<sentinel:[0-9]+>"),
            Cut::At("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Cut::At(r"([\t\n]|    |  )"),
            DIGIT,
            Cut::At(r"[\p{P}!-/:-@\[-`{-~]"),
            GPT2,
        ],
        add_bos: true,
        ..KEEP
    },
    Row { names: &["superbpe"], cuts: &[Cut::At(r"\p{N}+"), Cut::AsciiThousands], ..KEEP },
    Row {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        cuts: &[Cut::At(concat!(
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            marks!(),
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..KEEP
    },
    Row {
        names: &["seed-coder"],
        cuts: &[Cut::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+",
            spaces!()
        ))],
        ..KEEP
    },
    Row {
        names: &["kimi-k2"],
        cuts: &[Cut::At(concat!(
            r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}",
            r"\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]+|[^\r\n\p{L}\p{N}]",
            r"?[\p{L}--[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]]+",
            contraction!(),
            r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
            spaces!()
        ))],
        ..KEEP
    },
    Row {
        names: &["afmoe"],
        cuts: &[Cut::Thousands, Cut::At("[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"), DEEPSEEK],
        ..KEEP
    },
    Row {
        names: &["exaone-moe"],
        cuts: &[Cut::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?",
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..BASE
    },
];

/// The row of a name, or none.
pub fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.names.contains(&name))
}

/// Every known name, for error messages.
pub fn known() -> String {
    let names: Vec<&str> = ROWS.iter().flat_map(|row| row.names.iter().copied()).collect();
    names.join(", ")
}
