//! The page for the browser: its files, and the headers that they need.
//!
//! The files are built from TypeScript (`serve/page/`, by `make page`) and committed, so that a build of the server needs no node.

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its path in the address, without the leading slash.
    pub path: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

/// Who may ask for what: scripts, styles and requests of this server only, nothing inline, no frames.
pub const CONTENT_SECURITY_POLICY: &str = include_str!("../page/policy.txt").trim_ascii_end();

/// Headers of every file of the page, beside [`Asset::content_type`] and [`Asset::cache_control`].
pub const HEADERS: &[(&str, &str)] = &[
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

macro_rules! assets {
    ($($path:literal from $file:literal,)*) => {
        &[$(Asset { path: $path, bytes: include_bytes!(concat!("../page/dist/", $file)) },)*]
    };
}

/// All files: `/` is the chat, `/status` shows what the server does, and what both refer to lies below `/page/`.
pub const ASSETS: &[Asset] = assets![
    "" from "index.html",
    "status" from "status.html",
    "page/app.js" from "app.js",
    "page/code.js" from "code.js",
    "page/fonts/KaTeX_AMS-Regular.woff2" from "fonts/KaTeX_AMS-Regular.woff2",
    "page/fonts/KaTeX_Caligraphic-Regular.woff2" from "fonts/KaTeX_Caligraphic-Regular.woff2",
    "page/fonts/KaTeX_Fraktur-Regular.woff2" from "fonts/KaTeX_Fraktur-Regular.woff2",
    "page/fonts/KaTeX_Main-Bold.woff2" from "fonts/KaTeX_Main-Bold.woff2",
    "page/fonts/KaTeX_Main-BoldItalic.woff2" from "fonts/KaTeX_Main-BoldItalic.woff2",
    "page/fonts/KaTeX_Main-Italic.woff2" from "fonts/KaTeX_Main-Italic.woff2",
    "page/fonts/KaTeX_Main-Regular.woff2" from "fonts/KaTeX_Main-Regular.woff2",
    "page/fonts/KaTeX_Math-BoldItalic.woff2" from "fonts/KaTeX_Math-BoldItalic.woff2",
    "page/fonts/KaTeX_Math-Italic.woff2" from "fonts/KaTeX_Math-Italic.woff2",
    "page/fonts/KaTeX_SansSerif-Regular.woff2" from "fonts/KaTeX_SansSerif-Regular.woff2",
    "page/fonts/KaTeX_Script-Regular.woff2" from "fonts/KaTeX_Script-Regular.woff2",
    "page/fonts/KaTeX_Size1-Regular.woff2" from "fonts/KaTeX_Size1-Regular.woff2",
    "page/fonts/KaTeX_Size2-Regular.woff2" from "fonts/KaTeX_Size2-Regular.woff2",
    "page/fonts/KaTeX_Size3-Regular.woff2" from "fonts/KaTeX_Size3-Regular.woff2",
    "page/fonts/KaTeX_Size4-Regular.woff2" from "fonts/KaTeX_Size4-Regular.woff2",
    "page/fonts/KaTeX_Typewriter-Regular.woff2" from "fonts/KaTeX_Typewriter-Regular.woff2",
    "page/fonts/inter-latin-wght-normal.woff2" from "fonts/inter-latin-wght-normal.woff2",
    "page/icon.svg" from "icon.svg",
    "page/licences.txt" from "licences.txt",
    "page/math.css" from "math.css",
    "page/math.js" from "math.js",
    "page/shared.js" from "shared.js",
    "page/status.js" from "status.js",
    "page/style.css" from "style.css",
    "page/theme.js" from "theme.js",
];

/// The file at a path of an address, as `/status`.
pub fn find(path: &str) -> Option<&'static Asset> {
    let path = path.strip_prefix('/')?;
    ASSETS.iter().find(|a| a.path == path)
}

impl Asset {
    /// What it is, by its name.
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, end)| end) {
            None => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("woff2") => "font/woff2",
            Some(_) => "text/plain; charset=utf-8",
        }
    }

    /// The two pages are asked for each time. All else is referred to with a hash of its content and never changes.
    pub fn cache_control(&self) -> &'static str {
        if self.path.contains('.') {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn list_files(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                list_files(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    #[test]
    fn the_table_has_every_built_file_and_no_other() {
        let mut files = BTreeSet::new();
        list_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("page/dist"), "", &mut files);
        let listed = ASSETS.iter().map(|a| match a.path {
            "" => "index.html".to_string(),
            "status" => "status.html".to_string(),
            path => path.strip_prefix("page/").unwrap().to_string(),
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), files);
    }

    #[test]
    fn whatever_a_page_refers_to_is_in_the_table() {
        for page in ["/", "/status"] {
            let text = std::str::from_utf8(find(page).unwrap().bytes).unwrap();
            let references: Vec<&str> = text.split('"').filter(|p| p.starts_with("page/")).collect();
            assert!(references.len() >= 4, "{page}: {references:?}");
            for reference in references {
                let path = reference.split('?').next().unwrap();
                assert!(find(&format!("/{path}")).is_some(), "{page}: {reference}");
            }
        }
    }

    #[test]
    fn pages_have_nothing_inline_that_the_policy_would_forbid() {
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe") && !CONTENT_SECURITY_POLICY.contains('\n'));
        for page in ["/", "/status"] {
            let text = std::str::from_utf8(find(page).unwrap().bytes).unwrap();
            assert!(text.starts_with("<!doctype html>"));
            assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" on"), "{page}");
            assert!(text.split("<script").skip(1).all(|s| s.contains("src=\"page/")), "{page}");
        }
    }

    #[test]
    fn pages_may_change_and_what_they_refer_to_may_not() {
        assert_eq!(find("/").unwrap().cache_control(), "no-cache");
        assert_eq!(find("/status").unwrap().content_type(), "text/html; charset=utf-8");
        assert!(find("/page/app.js").unwrap().cache_control().contains("immutable"));
        assert!(find("/page/../policy.txt").is_none() && find("status").is_none() && find("/page").is_none());
    }

    #[test]
    fn the_page_stays_small() {
        let bytes: usize = ASSETS.iter().map(|a| a.bytes.len()).sum();
        assert!(bytes < 900 << 10, "{bytes} bytes");
    }
}
