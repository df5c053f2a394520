//! Which tensors an architecture's files must have, and which they may have without their being read: the table `tensors.txt`.
//!
//! The table stands beside the forward passes, because what is optional there (a bias, a norm, a product of its own for logits) is
//! required in some architectures, and what is there is not read in others. Both follow llama.cpp's loader and graphs.

use std::collections::HashSet;

/// Of each architecture its name, which begins a line, and in the lines below names of tensors; those that are never read begin with
/// `-`, those that may be there where no block reads them with `~`. `*` stands for a layer's `blk.N`, and `{a,b}` for each of what
/// stands there.
const TABLE: &str = include_str!("tensors.txt");

/// What an architecture says of its tensors, by role: a name in which `*` stands for the layer's `blk.N`.
#[derive(Debug, Default)]
pub struct Tensors {
    required: HashSet<String>,
    unread: HashSet<String>,
    accepted: HashSet<String>,
}

impl Tensors {
    /// Of the architecture of that name; of one that the table lacks, nothing is known.
    pub fn of(arch: &str) -> Tensors {
        let mut tensors = Tensors::default();
        for name in names(arch) {
            match (name.strip_prefix('-'), name.strip_prefix('~')) {
                (Some(name), _) => tensors.unread.insert(name.to_string()),
                (_, Some(name)) => tensors.accepted.insert(name.to_string()),
                _ => tensors.required.insert(name),
            };
        }
        tensors
    }

    /// Whether a block that looks for the tensor must find it.
    pub fn requires(&self, name: &str) -> bool {
        self.required.contains(&role(name))
    }

    /// Names of a layer's tensors that must be there and start so, without the layer's own.
    pub fn required_of(&self, part: &str) -> Vec<String> {
        let of_layers = self.required.iter().filter_map(|role| role.strip_prefix("*."));
        of_layers.filter(|name| name.starts_with(part)).map(str::to_string).collect()
    }

    /// Whether the tensor may be there where no block reads it.
    pub fn accepts(&self, name: &str) -> bool {
        self.ignores(name) || self.accepted.contains(&role(name))
    }

    /// Whether the tensor is never read.
    pub fn ignores(&self, name: &str) -> bool {
        name.ends_with(".input_scale") || self.unread.contains(&role(name))
    }
}

/// The names that stand below that of `arch`, one of each alternative.
fn names(arch: &str) -> Vec<String> {
    let below = TABLE.lines().skip_while(|line| *line != arch).skip(1).take_while(|line| line.starts_with(' '));
    below.flat_map(str::split_ascii_whitespace).flat_map(expand).collect()
}

/// A name with `{a,b}` → one with `a` and one with `b`, and so for each such pair of braces.
fn expand(name: &str) -> Vec<String> {
    let Some((before, (inner, after))) = name.split_once('{').and_then(|(b, rest)| Some((b, rest.split_once('}')?)))
    else {
        return vec![name.to_string()];
    };
    let after = expand(after);
    inner.split(',').flat_map(|part| after.iter().map(move |rest| format!("{before}{part}{rest}"))).collect()
}

/// A tensor's name with `*` for the layer: `blk.3.attn_q.bias` → `*.attn_q.bias`.
fn role(name: &str) -> String {
    let (before, at) = match name.split_once("blk.") {
        Some(parts) if parts.0.is_empty() || parts.0.ends_with('.') => parts,
        _ => return name.to_string(),
    };
    match at.split_once('.') {
        Some((layer, rest)) if layer.bytes().all(|b| b.is_ascii_digit()) => format!("{before}*.{rest}"),
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{expand, names, role, Tensors, TABLE};
    use crate::arch::ARCHS;
    use std::collections::HashSet;

    #[test]
    fn roles_name_no_layer() {
        let pairs = [
            ("blk.12.attn_q.bias", "*.attn_q.bias"),
            ("enc.blk.0.ffn_up.weight", "enc.*.ffn_up.weight"),
            ("output.weight", "output.weight"),
            ("blk.x.ssm_a", "blk.x.ssm_a"),
        ];
        pairs.iter().for_each(|(name, expected)| assert_eq!(role(name), *expected));
    }

    #[test]
    fn braces_stand_for_each_of_their_parts() {
        assert_eq!(expand("*.a_{x,y}.{weight,bias}"), ["*.a_x.weight", "*.a_x.bias", "*.a_y.weight", "*.a_y.bias"]);
        assert_eq!(expand("output.weight"), ["output.weight"]);
    }

    #[test]
    fn each_architecture_stands_there_once_and_names_each_tensor_once() {
        let lines = || TABLE.lines().filter(|line| !line.starts_with(['#', ' ']));
        for arch in ARCHS {
            assert_eq!(lines().filter(|name| *name == arch.name).count(), 1, "{}", arch.name);
            let mut seen = HashSet::new();
            for name in names(arch.name).iter().filter(|name| !name.starts_with('~')) {
                assert!(
                    seen.insert(name.trim_start_matches('-').to_string()),
                    "{}: {name} stands there twice",
                    arch.name
                );
            }
            assert!(!Tensors::of(arch.name).required.is_empty(), "{}", arch.name);
        }
        lines().for_each(|name| assert!(ARCHS.iter().any(|a| a.name == name), "{name}: no such architecture"));
    }
}
