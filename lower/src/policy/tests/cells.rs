//! ClassChoices over a grid as text: an axis is named where it matters, and neighbours with the same choices share a line.

use std::fmt::{Display, Write};

/// ClassChoices over some axes.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// One, whatever else is asked.
    All(String),
    /// Others for each of these labels.
    By(Vec<(String, Cells)>),
}

/// A choice by its kernel and its fields; zeros are left out.
pub fn tile<const N: usize>(kernel: &str, fields: [(&str, u32); N]) -> Cells {
    let told = fields.iter().filter(|(_, value)| *value != 0);
    Cells::All(told.fold(kernel.to_string(), |all, (name, value)| format!("{all} {name} {value}")))
}

/// Any value.
pub fn value(of: impl std::fmt::Debug) -> Cells {
    Cells::All(format!("{of:?}").replace('"', ""))
}

/// Several choices at each place.
pub fn named<const N: usize>(parts: [(&str, Cells); N]) -> Cells {
    Cells::By(parts.map(|(name, cells)| (name.to_string(), cells)).to_vec())
}

/// Along an axis in order: neighbours with the same choices are a range.
pub fn along<T: Display + Copy>(axis: &str, all: impl IntoIterator<Item = T>, of: impl Fn(T) -> Cells) -> Cells {
    let mut runs: Vec<(T, T, Cells)> = Vec::new();
    for at in all {
        let cells = of(at);
        match runs.last_mut() {
            Some((_, last, same)) if *same == cells => *last = at,
            _ => runs.push((at, at, cells)),
        }
    }
    let label = |first: T, last: T| match (first.to_string(), last.to_string()) {
        (first, last) if first == last => format!("{axis} {first}"),
        (first, last) => format!("{axis} {first}..{last}"),
    };
    joined(runs.into_iter().map(|(first, last, cells)| (label(first, last), cells)).collect())
}

/// Over things without an order: those with the same choices stand side by side.
pub fn each<T: Display>(all: impl IntoIterator<Item = T>, of: impl Fn(&T) -> Cells) -> Cells {
    let mut groups: Vec<(String, Cells)> = Vec::new();
    for one in all {
        let cells = of(&one);
        match groups.iter_mut().find(|(_, same)| *same == cells) {
            Some((names, _)) => write!(names, ", {one}").unwrap(),
            None => groups.push((one.to_string(), cells)),
        }
    }
    joined(groups)
}

fn joined(mut groups: Vec<(String, Cells)>) -> Cells {
    match groups.len() {
        1 => groups.remove(0).1,
        _ => Cells::By(groups),
    }
}

impl Cells {
    /// Text in lines, indented by `depth`: labels, and behind the last one what is chosen.
    pub fn lines(&self, depth: usize) -> String {
        let mut text = String::new();
        match self {
            Cells::All(chosen) => writeln!(text, "{:depth$}{chosen}", "").unwrap(),
            Cells::By(groups) => groups.iter().for_each(|(label, cells)| match cells {
                Cells::All(chosen) => writeln!(text, "{:depth$}{label}: {chosen}", "").unwrap(),
                Cells::By(_) => write!(text, "{:depth$}{label}\n{}", "", cells.lines(depth + 1)).unwrap(),
            }),
        }
        text
    }
}
