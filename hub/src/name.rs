//! Names: repositories of several hosts, paths of their files, parts of sets, and which file a quant means.

use crate::{Error, Result};

/// Whose a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The Hugging Face Hub.
    Hub,
    /// ModelScope.
    Scope,
    /// Ollama's registry.
    Ollama,
}

impl Host {
    /// All of them.
    pub const ALL: [Host; 3] = [Host::Hub, Host::Scope, Host::Ollama];

    /// What stands before a name; the Hub's stand alone.
    pub fn prefix(self) -> &'static str {
        match self {
            Host::Hub => "",
            Host::Scope => "modelscope:",
            Host::Ollama => "ollama:",
        }
    }
}

/// What may stand before a name, and whose it is then.
const PREFIXES: &[(&str, Host)] = &[
    ("hf:", Host::Hub),
    ("hf.co/", Host::Hub),
    ("huggingface.co/", Host::Hub),
    ("modelscope:", Host::Scope),
    ("ms:", Host::Scope),
    ("modelscope.cn/", Host::Scope),
    ("ollama:", Host::Ollama),
    ("ollama.com/", Host::Ollama),
    ("registry.ollama.ai/", Host::Ollama),
];

/// A model of some host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Whose it is.
    pub host: Host,
    /// Where; of Ollama's registry the quant is the tag, and none is `latest`.
    pub repo: Repo,
}

impl Name {
    /// Reads a name: `user/repo[:quant]`, `modelscope:user/repo[:quant]` or `ollama:[user/]model[:tag]`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Name> {
        Name::of(Host::Hub, text)
    }

    /// Reads a name, where one without a host is of the host `usual`.
    ///
    /// # Errors
    /// Anything else.
    pub fn of(usual: Host, text: &str) -> Result<Name> {
        let told = PREFIXES.iter().find_map(|(prefix, host)| Some((*host, text.strip_prefix(prefix)?)));
        let (host, rest) = told.unwrap_or((usual, text));
        let alone = !rest.contains('/');
        if host == Host::Ollama {
            let whole = if alone { format!("library/{rest}") } else { rest.to_string() };
            let repo = Repo::parse(&whole).map_err(|_| {
                Error::Name(format!(
                    "model: expected ollama:model, ollama:model:tag or ollama:user/model, found {text:?}"
                ))
            })?;
            return Ok(Name { host, repo });
        }
        let repo = Repo::parse(rest).map_err(|error| {
            // A bare word is a name of Ollama's registry.
            match alone && told.is_none() && Repo::parse(&format!("library/{rest}")).is_ok() {
                true => Error::Name(format!("{error}; ollama:{rest} is the model of Ollama's registry")),
                false => error,
            }
        })?;
        Ok(Name { host, repo })
    }

    /// Ollama's tag.
    pub fn tag(&self) -> &str {
        self.repo.quant.as_deref().unwrap_or("latest")
    }

    /// The repository's name with its host.
    pub fn repository(&self) -> String {
        let id = self.repo.id.strip_prefix("library/").filter(|_| self.host == Host::Ollama);
        format!("{}{}", self.host.prefix(), id.unwrap_or(&self.repo.id))
    }
}

/// A repository of the Hub, and which of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repo {
    /// `user/name`
    pub id: String,
    /// After the colon.
    pub quant: Option<String>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFile {
    /// From the repository's root, checked by [`check_path`].
    pub path: String,
    /// The cache's name of its contents.
    pub blob: String,
    /// The SHA-256 of its contents, hexadecimal; none where the Hub does not tell.
    pub sha256: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Where it is fetched from; empty where it need not be.
    pub url: String,
}

impl Repo {
    /// Reads `user/name` or `user/name:quant`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str) -> Result<Repo> {
        let (id, quant) = match text.split_once(':') {
            Some((id, quant)) => (id, Some(quant)),
            None => (text, None),
        };
        let word = |part: &str| {
            let usual = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let ends = inside(part.chars().next()) && inside(part.chars().last());
            part.len() <= 96 && part.chars().all(usual) && ends && !part.contains("..") && !part.contains("--")
        };
        let two = id.split_once('/').is_some_and(|(user, name)| word(user) && word(name));
        let quant_fits =
            quant.is_none_or(|q| q.len() <= 64 && q.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)));
        if !two || !quant_fits || quant == Some("") {
            return Err(Error::Name(format!("repository: expected user/name or user/name:quant, found {text:?}")));
        }
        Ok(Repo { id: id.to_string(), quant: quant.map(str::to_string) })
    }

    /// Name of its folder in the cache.
    pub fn folder(&self) -> String {
        format!("models--{}", self.id.replace('/', "--"))
    }
}

/// Whether so many hexadecimal digits.
pub fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Checks that a path stays below the folder that it is joined to, on any system.
///
/// # Errors
/// One that is absolute or empty, goes up, or has characters that no name of a model needs.
pub fn check_path(path: &str) -> Result<()> {
    let word = |part: &str| {
        let plain = !part.is_empty() && part != "." && part != ".." && part.len() <= 255;
        plain && !part.chars().any(|c| c.is_control() || "\\:*?\"<>|".contains(c)) && !part.ends_with(['.', ' '])
    };
    if path.len() > 1024 || !path.split('/').all(word) {
        return Err(Error::Name(format!("file name: expected one inside its repository, found {path:?}")));
    }
    Ok(())
}

/// A path as part of a URL.
pub fn escape_url_path(path: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    path.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Prefix, number and count of a part of a set, `prefix-00001-of-00003.gguf`.
fn split(path: &str) -> Option<(&str, u32, u32)> {
    let (rest, count) = path.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, no) = rest.rsplit_once('-')?;
    let number = |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten();
    let (no, count) = (number(no)?, number(count)?);
    (1..=count).contains(&no).then_some((prefix, no, count))
}

/// Most parts of a set.
const MOST_PARTS: u32 = 1024;

/// All parts of the set that a file belongs to, in order; itself if it is no part.
pub fn parts(path: &str) -> Vec<String> {
    match split(path) {
        Some((prefix, _, count)) if count <= MOST_PARTS => {
            (1..=count).map(|no| format!("{prefix}-{no:05}-of-{count:05}.gguf")).collect()
        }
        _ => vec![path.to_string()],
    }
}

/// The type of weights that a file's name has as a word, as `Q4_K_M`.
pub fn quant_of(path: &str) -> Option<&str> {
    let name = path.strip_suffix(".gguf").unwrap_or(path);
    let name = split(path).map_or(name, |(prefix, ..)| prefix);
    let is_type = |word: &&str| {
        let lower = word.to_ascii_lowercase();
        let rest = ["iq", "tq", "mxfp", "q", "bf", "f"].iter().find_map(|start| lower.strip_prefix(start));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    name.rsplit(['-', '.', '/']).find(is_type)
}

/// Whether a file can be a model: neither a projector nor an importance matrix, and no later part of a set.
pub fn is_model(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let other = name.contains("mmproj") || name.contains("imatrix") || name.starts_with("mtp-");
    lower.ends_with(".gguf") && !other && split(path).is_none_or(|(_, no, _)| no == 1)
}

/// Whether a name has the quant as a word of its own.
fn has_quant(path: &str, quant: &str) -> bool {
    let (path, quant) = (path.to_ascii_lowercase(), quant.to_ascii_lowercase());
    path.match_indices(&quant).any(|(at, _)| {
        let before = path[..at].chars().next_back();
        let after = path[at + quant.len()..].chars().next();
        before.is_none_or(|c| !c.is_ascii_alphanumeric()) && after.is_some_and(|c| ".-/".contains(c))
    })
}

/// The parts of the file that is meant, the first one first.
///
/// # Errors
/// None that is meant, and what there is; parts that are missing.
pub fn choose_file_parts<'a>(
    entries: &'a [RepositoryFile],
    repo: &Repo,
    file: Option<&str>,
) -> Result<Vec<&'a RepositoryFile>> {
    let mut models: Vec<&str> = entries.iter().map(|e| e.path.as_str()).filter(|p| is_model(p)).collect();
    models.sort_unstable();
    let of = |quant: &str| models.iter().copied().find(|path| has_quant(path, quant));
    let found = match (file, &repo.quant) {
        (Some(file), _) => Some(file),
        (None, Some(quant)) => of(quant),
        (None, None) => of("Q4_K_M").or_else(|| of("Q8_0")).or(models.first().copied()),
    };
    let none = |wanted: &str| {
        let some = models.iter().take(12).copied().collect::<Vec<_>>().join(", ");
        let there = if some.is_empty() { "no GGUF file".to_string() } else { some };
        Error::Name(format!("{}: expected {wanted}, found {there}", repo.id))
    };
    let wanted = repo.quant.as_ref().map_or("a GGUF file".to_string(), |quant| format!("a file of type {quant}"));
    let found = found.ok_or_else(|| none(&wanted))?;
    let part = |path: String| entries.iter().find(|e| e.path == path).ok_or_else(|| none(&path));
    parts(found).into_iter().map(part).collect()
}

/// The projector of pictures and sounds that lies beside models: of halves before other types, as encoders are small.
pub fn projector(entries: &[RepositoryFile]) -> Option<&RepositoryFile> {
    let name = |e: &RepositoryFile| e.path.to_ascii_lowercase();
    let is_one = |e: &&RepositoryFile| {
        let lower = name(e);
        lower.rsplit('/').next().is_some_and(|n| n.contains("mmproj")) && lower.ends_with(".gguf")
    };
    let rank =
        |e: &&RepositoryFile| ["f16", "bf16", "q8_0", "f32"].iter().position(|t| has_quant(&name(e), t)).unwrap_or(9);
    entries.iter().filter(is_one).min_by_key(|e| (rank(e), e.path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projector_of_halves_is_taken_before_others() {
        let of = |paths: &[&str]| projector(&entries(paths)).map(|e| e.path.clone());
        assert_eq!(
            of(&["m-Q4_K_M.gguf", "mmproj-m-Q8_0.gguf", "mmproj-m-f16.gguf"]).as_deref(),
            Some("mmproj-m-f16.gguf")
        );
        assert_eq!(of(&["mmproj-BF16.gguf", "mmproj-F32.gguf"]).as_deref(), Some("mmproj-BF16.gguf"));
        assert_eq!(of(&["m-Q4_K_M.gguf", "mmproj.txt"]), None);
    }

    fn entries(paths: &[&str]) -> Vec<RepositoryFile> {
        let entry = |path: &&str| RepositoryFile {
            path: path.to_string(),
            blob: "b".into(),
            sha256: None,
            size: 1,
            url: String::new(),
        };
        paths.iter().map(entry).collect()
    }

    fn choice(paths: &[&str], repo: &str, file: Option<&str>) -> String {
        match choose_file_parts(&entries(paths), &Repo::parse(repo).unwrap(), file) {
            Ok(found) => found.iter().map(|e| e.path.as_str()).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_repository_is_two_words_and_maybe_a_quant() {
        let repo = Repo::parse("user/Model-1.5_x:Q4_K_M").unwrap();
        assert_eq!((repo.folder().as_str(), repo.quant.as_deref()), ("models--user--Model-1.5_x", Some("Q4_K_M")));
        for bad in
            ["", "a", "a/b/c", "../b", "a/..", "/a", "a/b:", "a/b\0", "a/b?x", "a/-b", "a--b/c", "a/b:x/y", "a/b..c"]
        {
            assert!(Repo::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_says_whose_it_is() {
        let of = |text| Name::parse(text).map(|n| (n.host, n.repository(), n.tag().to_string()));
        for (text, host, repository, tag) in [
            ("user/m:Q8_0", Host::Hub, "user/m", "Q8_0"),
            ("hf.co/user/m", Host::Hub, "user/m", "latest"),
            ("ms:user/m:Q4_K_M", Host::Scope, "modelscope:user/m", "Q4_K_M"),
            ("modelscope.cn/user/m", Host::Scope, "modelscope:user/m", "latest"),
            ("ollama:llama3.2:1b", Host::Ollama, "ollama:llama3.2", "1b"),
            ("ollama:user/m", Host::Ollama, "ollama:user/m", "latest"),
            ("registry.ollama.ai/library/x:y", Host::Ollama, "ollama:x", "y"),
        ] {
            assert_eq!(of(text).unwrap(), (host, repository.to_string(), tag.to_string()), "{text}");
        }
        assert_eq!(Name::of(Host::Ollama, "llama3.2:1b").unwrap(), Name::parse("ollama:llama3.2:1b").unwrap());
        assert_eq!(Name::of(Host::Ollama, "hf.co/u/m").unwrap().host, Host::Hub);
        assert!(of("llama3.2:1b").unwrap_err().to_string().contains("ollama:llama3.2:1b is the model"));
        for bad in ["", "ollama:", "ollama:a/b/c", "ollama:../x", "ms:x", "ollama:x:y/z", "ollama:x:"] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_says_its_type() {
        for (path, quant) in [
            ("m-Q4_K_M.gguf", Some("Q4_K_M")),
            ("m.q8_0.gguf", Some("q8_0")),
            ("UD/m-UD-IQ2_XXS-00001-of-00002.gguf", Some("IQ2_XXS")),
            ("m-1.5-BF16.gguf", Some("BF16")),
            ("BF16/m-00001-of-00002.gguf", Some("BF16")),
            ("quite-fine.gguf", None),
        ] {
            assert_eq!(quant_of(path), quant, "{path}");
        }
    }

    #[test]
    fn a_path_stays_below_its_folder() {
        for good in ["a.gguf", "Q4 K/a b.gguf", "ä.gguf", "..a"] {
            check_path(good).unwrap();
        }
        for bad in [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "a//b",
            "a/.",
            "a\\..\\b",
            "c:x",
            "a\0b",
            "a\nb",
            "a/",
            "con.",
            "x\u{7f}",
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_quant_is_a_word_of_the_name() {
        let all = ["m-IQ4_NL.gguf", "m-Q8_0.gguf", "m.q4_k_m.gguf", "mmproj-Q4_K_M.gguf", "README.md"];
        assert_eq!(choice(&all, "u/m", None), "m.q4_k_m.gguf");
        assert_eq!(choice(&all, "u/m:iq4_nl", None), "m-IQ4_NL.gguf");
        assert_eq!(choice(&all[..2], "u/m", None), "m-Q8_0.gguf");
        assert_eq!(choice(&all[..1], "u/m", None), "m-IQ4_NL.gguf");
        assert_eq!(choice(&all, "u/m", Some("README.md")), "README.md");
        let none = choice(&all, "u/m:Q4_NL", None);
        assert_eq!(none, "u/m: expected a file of type Q4_NL, found m-IQ4_NL.gguf, m-Q8_0.gguf, m.q4_k_m.gguf");
        assert_eq!(choice(&all[3..], "u/m", None), "u/m: expected a GGUF file, found no GGUF file");
    }

    #[test]
    fn all_parts_of_a_set_belong_to_it() {
        let all = ["Q4/m-Q4_K_M-00002-of-00002.gguf", "Q4/m-Q4_K_M-00001-of-00002.gguf"];
        let set = "Q4/m-Q4_K_M-00001-of-00002.gguf Q4/m-Q4_K_M-00002-of-00002.gguf";
        assert_eq!(choice(&all, "u/m", None), set);
        assert_eq!(choice(&all, "u/m", Some(all[0])), set);
        assert!(choice(&all[1..], "u/m", None).contains("expected Q4/m-Q4_K_M-00002-of-00002.gguf"));
        assert_eq!(parts("m-00003-of-00002.gguf"), ["m-00003-of-00002.gguf"]);
        assert_eq!(parts("m-00001-of-99999.gguf").len(), 1, "no set has so many");
    }

    #[test]
    fn names_are_escaped_in_urls() {
        assert_eq!(escape_url_path("a b/ä#?.gguf"), "a%20b/%C3%A4%23%3F.gguf");
    }
}
