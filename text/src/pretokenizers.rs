//! Every pre-tokenizer: which value of `tokenizer.ggml.pre` cuts text how.
//!
//! Expressions are those of llama.cpp, where they differ from a model's own too: letters are not told apart by case beyond
//! ASCII, and marks belong to letters only where it says so.

/// A way to cut pieces of text into smaller ones.
#[derive(Clone, Copy, Debug)]
pub enum SplitRule {
    /// At the matches of a regular expression.
    At(&'static str),
    /// Numbers into groups of three digits, counted from their end.
    Thousands,
    /// Thousands of ASCII digits alone, within numbers that stand alone.
    AsciiThousands,
    /// White space that ends no line into powers of two, largest first.
    PowersOfTwo,
    /// Before the white space at the end.
    TrailingSpace,
}

/// One pre-tokenizer: how a vocabulary of merges cuts text into words, and what it does where the file is silent.
#[derive(Clone, Copy, Debug)]
pub struct PreTokenizer {
    /// Values of `tokenizer.ggml.pre` that mean this row.
    pub names: &'static [&'static str],
    /// Applied in turn; each cuts the pieces that the one before left.
    pub cuts: &'static [SplitRule],
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

const BASE: PreTokenizer = PreTokenizer {
    names: &[],
    cuts: &[],
    whole_words: false,
    add_bos: false,
    add_sep: false,
    clean: true,
    plain: false,
};

/// A row whose decoding keeps all spaces.
const KEEP: PreTokenizer = PreTokenizer { clean: false, ..BASE };

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

const DIGIT: SplitRule = SplitRule::At(r"\p{N}");
const THREE: SplitRule = SplitRule::At(r"\p{N}{1,3}");
const GPT2: SplitRule = SplitRule::At(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)");
const LLAMA3: SplitRule =
    SplitRule::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", marks!(), spaces!()));
const QWEN2: SplitRule =
    SplitRule::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", marks!(), spaces!()));
const LINES: SplitRule = SplitRule::At(r"[^\n]+|[\n]+");
const CJK: SplitRule = SplitRule::At("[一-龥぀-ゟ゠-ヿ]+");
const CJK_WIDE: SplitRule = SplitRule::At(r"[[一-龥ࠀ-一가-퟿]--\s]+");
const SENTENCES: SplitRule = SplitRule::At(r" ?[^(\s|.,!?…。，、।۔،)]+");
const DEEPSEEK: SplitRule = SplitRule::At(concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*",
    spaces!()
));
const GPT4O: SplitRule = SplitRule::At(concat!(
    cased!(r"\p{L}", concat!(contraction!(), "?")),
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    spaces!()
));

/// Every pre-tokenizer there is.
pub const ROWS: &[PreTokenizer] = &[
    PreTokenizer {
        names: &["default"],
        cuts: &[
            SplitRule::At(r"[\p{P}\$\+<=>\^~\|]+"),
            GPT2,
            SplitRule::At(r"\p{N}+"),
            SplitRule::At("[0-9][0-9][0-9]"),
        ],
        ..BASE
    },
    PreTokenizer {
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
    PreTokenizer {
        names: &["k2-horizon"],
        cuts: &[SplitRule::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}",
            marks!(),
            spaces!()
        ))],
        ..KEEP
    },
    PreTokenizer { names: &["dbrx", "smaug-bpe"], cuts: &[LLAMA3], ..BASE },
    PreTokenizer { names: &["chatglm-bpe"], cuts: &[LLAMA3], ..BASE },
    PreTokenizer { names: &["glm4", "glm5"], cuts: &[LLAMA3], whole_words: true, ..BASE },
    PreTokenizer {
        names: &["minicpm5"],
        cuts: &[
            THREE,
            SplitRule::At(concat!(contraction!(), r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+", marks!(), spaces!())),
        ],
        whole_words: true,
        ..BASE
    },
    PreTokenizer { names: &["jais-2"], cuts: &[LLAMA3, SplitRule::PowersOfTwo], ..BASE },
    PreTokenizer {
        names: &["deepseek-llm"],
        cuts: &[
            SplitRule::At(r"[\r\n]"),
            SplitRule::At(concat!(
                r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁ",
                r"Ҋ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼ",
                r"ℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭ",
                r"Ꚁ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
            )),
            SplitRule::At(r"\s?[[!-/:-~！-／：-～‘-‟　-。]--[\x{3000}]]+"),
            SplitRule::TrailingSpace,
            CJK_WIDE,
            SplitRule::At(r"\p{N}+"),
        ],
        ..KEEP
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        cuts: &[SplitRule::At(r"[\r\n]"), SplitRule::At(r"\s?\p{L}+"), SplitRule::At(r"\s?\p{P}+"), CJK_WIDE, DIGIT],
        ..KEEP
    },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        cuts: &[THREE, CJK, DEEPSEEK],
        ..KEEP
    },
    PreTokenizer {
        names: &["spark2_5"],
        cuts: &[
            THREE,
            CJK,
            SplitRule::At(concat!(
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
                r"| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
            )),
            DIGIT,
        ],
        ..KEEP
    },
    PreTokenizer {
        names: &["youtu"],
        cuts: &[
            SplitRule::At("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
            SplitRule::At(concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                contraction!(),
                r"?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
                spaces!()
            )),
        ],
        whole_words: true,
        ..KEEP
    },
    PreTokenizer {
        names: &["falcon"],
        cuts: &[SplitRule::At(r"[\p{P}\$\+<=>\^~\|`]+"), GPT2, SplitRule::At("[0-9][0-9][0-9]")],
        ..BASE
    },
    PreTokenizer {
        names: &["starcoder", "refact", "codeshell", "exaone", "minerva-7b", "mellum2"],
        cuts: &[DIGIT, GPT2],
        ..BASE
    },
    PreTokenizer { names: &["command-r", "smollm"], cuts: &[DIGIT, GPT2], ..KEEP },
    PreTokenizer {
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
    PreTokenizer { names: &["jina-v1-en", "jina-v2-code", "roberta-bpe"], cuts: &[GPT2], add_sep: true, ..BASE },
    PreTokenizer { names: &["trillion", "granite-docling"], cuts: &[GPT2], ..KEEP },
    PreTokenizer { names: &["gemma4", "granite-embed-multi-311m"], cuts: &[LINES], add_bos: true, plain: true, ..BASE },
    PreTokenizer { names: &["sarvam-moe"], cuts: &[LINES], plain: true, ..KEEP },
    PreTokenizer { names: &["whitespace"], cuts: &[SplitRule::At(r"\S+")], plain: true, ..BASE },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "hunyuan", "grok-2", "solar-open"],
        cuts: &[QWEN2],
        ..KEEP
    },
    PreTokenizer { names: &["stablelm2", "megrez"], cuts: &[QWEN2], ..BASE },
    PreTokenizer { names: &["laguna"], cuts: &[LINES, QWEN2], ..KEEP },
    PreTokenizer {
        names: &["qwen35"],
        cuts: &[SplitRule::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
            spaces!()
        ))],
        ..KEEP
    },
    PreTokenizer {
        names: &["ufakzeka"],
        cuts: &[SplitRule::At(concat!(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}", marks!(), spaces!()))],
        ..KEEP
    },
    PreTokenizer { names: &["poro-chat"], cuts: &[SENTENCES], ..KEEP },
    PreTokenizer { names: &["bloom", "gpt3-finnish"], cuts: &[SENTENCES], ..BASE },
    PreTokenizer { names: &["viking"], cuts: &[SENTENCES, DIGIT], ..KEEP },
    PreTokenizer {
        names: &["tekken"],
        cuts: &[SplitRule::At(concat!(cased!(r"\p{L}", ""), r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*", spaces!()))],
        whole_words: true,
        add_bos: true,
        ..KEEP
    },
    PreTokenizer { names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], cuts: &[GPT4O], ..KEEP },
    PreTokenizer {
        names: &["granite-embed-multi-97m"],
        cuts: &[SplitRule::At(concat!(
            cased!(r"\p{L}\p{M}", concat!(contraction!(), "?")),
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
            spaces!()
        ))],
        whole_words: true,
        ..KEEP
    },
    PreTokenizer {
        names: &["tiny_aya", "cohere2moe"],
        cuts: &[
            SplitRule::Thousands,
            SplitRule::At(concat!(
                r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+",
                contraction!(),
                r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*",
                spaces!()
            )),
        ],
        ..KEEP
    },
    PreTokenizer {
        names: &["chameleon"],
        cuts: &[
            SplitRule::At("<sentinel:[0-9]+>"),
            SplitRule::At("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            SplitRule::At(r"([\t\n]|    |  )"),
            DIGIT,
            SplitRule::At(r"[\p{P}!-/:-@\[-`{-~]"),
            GPT2,
        ],
        add_bos: true,
        ..KEEP
    },
    PreTokenizer { names: &["superbpe"], cuts: &[SplitRule::At(r"\p{N}+"), SplitRule::AsciiThousands], ..KEEP },
    PreTokenizer {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        cuts: &[SplitRule::At(concat!(
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
            marks!(),
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..KEEP
    },
    PreTokenizer {
        names: &["seed-coder"],
        cuts: &[SplitRule::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+",
            spaces!()
        ))],
        ..KEEP
    },
    PreTokenizer {
        names: &["kimi-k2"],
        cuts: &[SplitRule::At(concat!(
            r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}",
            r"\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]+|[^\r\n\p{L}\p{N}]",
            r"?[\p{L}--[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}]]+",
            contraction!(),
            r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
            spaces!()
        ))],
        ..KEEP
    },
    PreTokenizer {
        names: &["afmoe"],
        cuts: &[
            SplitRule::Thousands,
            SplitRule::At("[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"),
            DEEPSEEK,
        ],
        ..KEEP
    },
    PreTokenizer {
        names: &["exaone-moe"],
        cuts: &[SplitRule::At(concat!(
            contraction!(),
            r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?",
            r"|\s*[\r\n]|\s+(?!\S)|\s+"
        ))],
        ..BASE
    },
];

/// The row of a name, or none.
pub fn find(name: &str) -> Option<&'static PreTokenizer> {
    ROWS.iter().find(|row| row.names.contains(&name))
}

/// Every known name, for error messages.
pub fn list_names() -> String {
    let names: Vec<&str> = ROWS.iter().flat_map(|row| row.names.iter().copied()).collect();
    names.join(", ")
}
